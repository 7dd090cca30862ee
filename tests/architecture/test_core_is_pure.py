"""core/ touches nothing: what imports cannot show is looked for in its syntax trees."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

CORE = Path(__file__).parents[2] / "orchestrator" / "core"
FORBIDDEN = frozenset({"open", "print", "input", "exec", "eval", "compile", "__import__"})


def forbidden_calls(source: str) -> Iterator[tuple[int, str]]:
    """Line and name of every call of a forbidden builtin."""
    for node in ast.walk(ast.parse(source)):
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Name) and called.id in FORBIDDEN:
            yield called.lineno, called.id


@pytest.mark.parametrize("file", sorted(CORE.rglob("*.py")), ids=lambda file: file.stem)
def test_core_calls_no_builtin_that_reads_writes_or_evaluates(file: Path) -> None:
    """No module of core opens, prints, asks or evaluates."""
    assert list(forbidden_calls(file.read_text(encoding="utf-8"))) == []


def test_the_search_finds_what_it_is_for() -> None:
    """The walk sees a call wherever it hides, and no method of the same name."""
    source = "def f():\n    return [open(x) for x in y]\nre.compile('x')\n"
    assert list(forbidden_calls(source)) == [(2, "open")]
