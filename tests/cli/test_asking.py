"""What a person types before a question."""

import subprocess
import sys

import pytest

ASK = """
from orchestrator.cli.asking import choose
print(choose("Which?", ["a", "b"], "a", others={}))
"""


@pytest.mark.parametrize(
    ("others", "typed", "taken"),
    [
        (False, "\u00b2\n2\n", "b"),
        (True, "\u00b2\n", "\u00b2"),
        (True, "7\n\u0661\n", "a"),
    ],
)
def test_a_raised_two_is_no_number(others: bool, typed: str, taken: str) -> None:
    """It is a digit to Python, which cannot count with it; it is a word as others are."""
    ran = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", ASK.format(others)],
        input=typed,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert ran.stdout.splitlines()[-1].removeprefix("[a] ") == taken
