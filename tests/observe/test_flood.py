"""Floods straight into a followed file: all of it is stored, and memory does not grow with it."""

from pathlib import Path

import pytest

from bench.observe.flood import KINDS, flood

MEGABYTES = 60
MORE_MB = 45.0
"""Well below the flood; windows, chunks and the detection's own take about 20."""


@pytest.mark.parametrize("kind", list(KINDS))
async def test_flood(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines, one line without an end, and random bytes: the stored log is the file."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    found = await flood(kind, MEGABYTES, tmp_path)
    assert found["stored_is_the_file"]
    assert found["daemon_mb_more"] < MORE_MB
    assert found["probe_mb_more"] < MORE_MB
