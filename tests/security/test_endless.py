"""A stack that never ends: what is kept of it while it is read stays bounded, of whatever kind."""

from collections.abc import Callable

import pytest

from orchestrator.core.parse.stack_parts import Kind
from orchestrator.core.parse.traceback import Block

LINES = 12_000
MOST_KEPT = 8_000
"""Lines of the text, and of a message or the frames."""

ENDLESS: dict[str, tuple[Kind, list[str], Callable[[int], list[str]]]] = {
    "frames": (Kind.PYTHON, [], lambda n: [f'  File "/srv/a.py", line {n}, in f', "    x()"]),
    "notebook": (Kind.PYTHON, [], lambda n: [f"File /srv/a.py:{n}, in f(x)"]),
    "rich": (Kind.RICH, [], lambda n: [f"\u2502 /srv/a.py:{n} in f \u2502"]),
    "fault frames": (Kind.FAULT, [], lambda n: [f'  File "/srv/a.py", line {n} in f']),
    "fault threads": (
        Kind.FAULT,
        [],
        lambda n: [f"Thread 0x{n:016x} (most recent call first):", '  File "a.py", line 3 in f'],
    ),
    "native": (Kind.NATIVE, [], lambda n: [f"  what():  {n}"]),
    "message": (Kind.PYTHON, ['  File "a.py", line 3, in f', "ValueError: x"], lambda n: ["  y"]),
    "chain": (
        Kind.PYTHON,
        [],
        lambda n: [
            '  File "/srv/a.py", line 3, in f',
            f"KeyError: {n}",
            "",
            "During handling of the above exception, another exception occurred:",
            "",
            "Traceback (most recent call last):",
        ],
    ),
    "group": (
        Kind.GROUP,
        ['  | File "/srv/a.py", line 3, in f', "  | ExceptionGroup: many (2 sub-exceptions)"],
        lambda n: ["  +---------------- 2 ----------------", f"    | ValueError: {n}"],
    ),
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_a_stack_without_end_is_kept_in_bounds(kind: str) -> None:
    """However many frames, threads, links of a chain or lines come, and its last word is kept."""
    sort, begun, lines = ENDLESS[kind]
    block = Block(sort)
    for line in begun:
        block.offer(line)
    for number in range(LINES):
        for line in lines(number):
            block.offer(line)
    kept = len(block.text) + sum(1 + len(part.frames) + len(part.message) for part in block.parts)
    assert 10 < kept < MOST_KEPT
    if kind in ("chain", "group"):
        said = [part.exception.message for part in block.parts if part.exception]
        assert str(LINES - 1) in said[-1]
