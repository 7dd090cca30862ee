"""What `orch wait --until` waits for: the words of an expression. Pure; it looks at no run."""

import re
from typing import NamedTuple

from orchestrator.core.errors import UsageError
from orchestrator.core.patterns import Pattern, read_pattern

EXPRESSIONS = (
    "ended, crashed, incident, step:N, phase:NAME, log:RE, or a metric: 'loss<2', 'loss>9'"
)
_METRIC = re.compile(
    r"\s*([A-Za-z_][\w./-]*)\s*([<>])\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)\s*", re.IGNORECASE
)


class Until(NamedTuple):
    """An expression, taken apart."""

    kind: str
    """`ended`, `crashed`, `incident`, `step`, `phase`, `log` or `metric`."""
    word: str = ""
    """The phase, or the metric's name."""
    sign: str = ""
    """`<` or `>`, of a metric."""
    limit: float = 0.0
    """The step, or what the metric is held against."""
    pattern: Pattern | None = None
    """What a line of the log has to match, of `log`."""


def parse_until(expression: str) -> Until:
    """Take an expression apart; UsageError where it is none."""
    kind, _, rest = expression.partition(":")
    if expression in {"ended", "crashed", "incident"}:
        return Until(expression)
    if kind == "step" and re.fullmatch(r"[0-9]{1,18}", rest):
        return Until(kind, limit=int(rest))
    if kind == "phase" and rest.strip():
        return Until(kind, word=rest.strip())
    if kind == "log" and rest:
        try:
            return Until(kind, pattern=read_pattern(rest))
        except ValueError as error:
            raise UsageError(
                f"--until {expression}: not a pattern to search for: it {error}.",
                remedy="Write it as Python's re has it, a \\ before what is meant as it stands.",
            ) from error
    if metric := _METRIC.fullmatch(expression):
        return Until("metric", word=metric[1], sign=metric[2], limit=float(metric[3]))
    raise UsageError(f"--until {expression}: not an expression.", remedy=f"Write {EXPRESSIONS}.")
