"""The threat model keeps its word: what it names as a proof is there, and is a test."""

import re
from pathlib import Path

import pytest

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
