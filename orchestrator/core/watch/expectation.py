"""What a job's owner expects of its numbers: `step>=1000: loss<6`, read and held to metrics.

Owns the little language. One bad number is noise; three in a row are not.
"""

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

IN_A_ROW = 3

_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
}
_CONDITION = re.compile(
    r"\s*(?P<name>\w+)\s*(?P<sign>>=|<=|==|>|<)"
    r"\s*(?P<value>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A comparison of one metric with a number."""

    name: str
    sign: str
    value: float

    def holds(self, values: Mapping[str, Any]) -> bool | None:
        """Whether it holds; None where the metric is not known. NaN never holds."""
        known = values.get(self.name)
        if isinstance(known, bool) or not isinstance(known, int | float):
            return None
        return _COMPARE[self.sign](float(known), self.value)


class Expectation:
    """`WHEN: WHAT`: from the first moment on at which WHEN holds, WHAT must."""

    def __init__(self, text: str) -> None:
        """The inventory has refused what does not read so; ValueError otherwise."""
        when, _, what = text.partition(":")
        self.text = text
        self.when, self.what = _condition(when), _condition(what)
        self._broken = 0
        self.failed = False

    def feed(self, values: Mapping[str, Any]) -> bool:
        """Whether these newest values make it fail, for the first time."""
        if self.failed or self.when.holds(values) is not True:
            return False
        held = self.what.holds(values)
        if held is not None:
            self._broken = 0 if held else self._broken + 1
        self.failed = self._broken >= IN_A_ROW
        return self.failed


def _condition(text: str) -> Condition:
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no condition like loss<6")
    return Condition(name=match["name"], sign=match["sign"], value=float(match["value"]))
