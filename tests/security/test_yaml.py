"""An inventory that is meant to hurt: refused with its line, in no time and little memory."""

import tracemalloc

import pytest

from orchestrator.core.errors import InventoryError
from orchestrator.core.inventory.build import parse_inventory

BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 12)
)
"""Eleven levels of nine aliases: thirty thousand million values, were they made."""


def refused(source: bytes) -> str:
    """What is said of an inventory."""
    with pytest.raises(InventoryError) as caught:
        parse_inventory(source, path="i.yaml", folder="/", exists=lambda _: True, home="/root")
    return str(caught.value)


def test_aliases_of_aliases_are_refused() -> None:
    """The count of values has an end, and so has the memory that they take."""
    tracemalloc.start()
    said = refused(f"version: 1\n{BOMB}".encode())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "values by its aliases" in said
    assert peak < 256 * 1024 * 1024


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (b"version: 1\njobs: &a {b: *a}\n", "alias of something that contains it"),
        (b"version: 1\njobs: " + b"[" * 5000 + b"]" * 5000, "nested deeper"),
        (b"version: 1\nhosts: !!python/object/apply:os.system [reboot]\n", "only plain YAML"),
        (b"version: 1\nhosts: {a\x1b: 1}\n", "character YAML forbids"),
        (b"version: 1\nalerts: {sinks: {a: {type: {}}}}\n", "alerts.sinks.a"),
    ],
)
def test_other_tricks_are_refused(source: bytes, words: str) -> None:
    """Aliases in a ring, depth without end, tags that make objects, control characters."""
    assert words in refused(source)
