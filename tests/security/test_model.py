"""The threat model keeps its word: what it names as a proof is there, and is a test."""

import re
from pathlib import Path

import pytest

from orchestrator.api.listening import LEAST_TOKEN_CHARS
from orchestrator.api.porch import BEGINS_WITHIN_S, MOST_CONNECTIONS
from orchestrator.probe.frames import MAX_FRAME_BYTES

ROOT = Path(__file__).parents[2]
MODEL = (ROOT / "docs" / "security.md").read_text()
ROWS = [
    line for line in MODEL.splitlines() if line.startswith("| ") and not line.startswith("| who")
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[2].strip()[:50])
def test_every_line_names_proofs_that_are_there(row: str) -> None:
    """Each line has at least one file, and each is a module with a test or a program of bench."""
    held_by = row.rstrip(" |").rpartition("|")[2]
    named = re.findall(r"`([^`]+)`", held_by)
    assert named, row
    for name in named:
        path = ROOT / name
        if name.startswith("bench/"):
            assert (path / "__main__.py").is_file(), name
        else:
            assert re.search(r"^(async )?def test_", path.read_text(), re.MULTILINE), name


@pytest.mark.parametrize(
    ("words", "unit"),
    [
        (r"a frame is (\d+) MiB at most", MAX_FRAME_BYTES / 1024**2),
        (r"a token of (\d+) characters or more", LEAST_TOKEN_CHARS),
        (r"(\d+) connections at most", MOST_CONNECTIONS),
        (r"and (\d+) s to begin", BEGINS_WITHIN_S),
    ],
)
def test_each_bound_is_the_one_that_is_told(words: str, unit: float) -> None:
    """A bound that is promised in figures has the figure that the code has."""
    assert [float(figure) for figure in re.findall(words, MODEL)] == [unit]
