"""The words that `orch wait --until` takes."""

import pytest

from orchestrator.core.errors import UsageError
from orchestrator.core.parse.until import Until, parse_until


@pytest.mark.parametrize(
    ("expression", "parts"),
    [
        ("ended", ("ended", "", "", 0)),
        ("crashed", ("crashed", "", "", 0)),
        ("incident", ("incident", "", "", 0)),
        ("step:1000", ("step", "", "", 1000)),
        ("phase:compile", ("phase", "compile", "", 0)),
        ("loss<2", ("metric", "loss", "<", 2)),
        ("grad_norm > 1e3", ("metric", "grad_norm", ">", 1000)),
        ("eval/acc>-.5", ("metric", "eval/acc", ">", -0.5)),
    ],
)
def test_expression_is_taken_apart(expression: str, parts: tuple[str, str, str, float]) -> None:
    """Each kind of expression, with its name, its sign and its number."""
    assert parse_until(expression)[:4] == parts


def test_line_of_a_log_is_a_regular_expression() -> None:
    """What follows `log:` is Python's, colons and signs of comparison included."""
    until = parse_until(r"log:loss: <\d")
    assert isinstance(until, Until)
    assert until.pattern is not None
    assert until.pattern.search("at step 5 loss: <3")


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "monday",
        "step:",
        "step:-1",
        "phase:",
        "log:",
        "log:(",
        "log:(?=x)y",
        "loss<",
        "loss<x",
        "<2",
        "loss<=2",
    ],
)
def test_what_is_no_expression_is_refused(expression: str) -> None:
    """The refusal names the expression and says what may be written."""
    with pytest.raises(UsageError) as refused:
        parse_until(expression)
    assert f"--until {expression}: not a" in str(refused.value)
    assert refused.value.remedy
