"""Logs that a power cut or a bad disk left in pieces: what is there is read, the rest is a hole."""

import random
from pathlib import Path

import pytest

from orchestrator.store.logs import Logs

CONTENT = random.Random(3).randbytes(3000)


@pytest.fixture
def packed(tmp_path: Path) -> list[Path]:
    """The files of a log of three segments, the first two of them packed."""
    logs = Logs(tmp_path, segment_bytes=1000)
    for begin in range(0, 3000, 1000):
        logs.append("j-1", 1, begin, CONTENT[begin : begin + 1000], 1.0)
    logs.close_all()
    found = sorted((tmp_path / "j-1" / "1").glob("0*"))
    assert [one.suffix for one in found] == [".zst", ".zst", ".log"]
    return found


@pytest.mark.parametrize("left", [0, 10, 500], ids=["empty", "half a head", "half"])
def test_a_packed_segment_that_was_cut_is_a_hole(
    tmp_path: Path, packed: list[Path], left: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The rest can be read, and the daemon's log says which file it is."""
    packed[1].write_bytes(packed[1].read_bytes()[:left])
    logs = Logs(tmp_path)
    parts = dict(logs.parts("j-1", 1))
    assert parts[0] == CONTENT[:1000]
    assert parts[2000] == CONTENT[2000:]
    assert CONTENT[1000:2000].startswith(parts.get(1000, b""))
    assert logs.tail("j-1", 1, 1000) == CONTENT[2000:]
    assert {vars(one)["path"] for one in caplog.records} == {str(packed[1])}


def test_a_packed_segment_with_other_bytes_in_it_is_a_hole(
    tmp_path: Path, packed: list[Path]
) -> None:
    """A checksum guards it: nothing that no program printed is shown."""
    content = bytearray(packed[0].read_bytes())
    content[-20:] = bytes(20)
    packed[0].write_bytes(content)
    assert Logs(tmp_path).read("j-1", 1, 0, 3000) == CONTENT[1000:]


def test_a_log_that_lost_its_end_goes_on_where_it_ends(tmp_path: Path) -> None:
    """Not all of it had reached the disk: the target is asked for the rest, and it fits."""
    logs = Logs(tmp_path)
    logs.append("j-1", 1, 0, CONTENT, 1.0)
    logs.close_all()
    (segment,) = (tmp_path / "j-1" / "1").glob("*.log")
    segment.write_bytes(CONTENT[:700])
    logs = Logs(tmp_path)
    assert logs.end("j-1", 1) == 700
    assert logs.append("j-1", 1, 700, CONTENT[700:], 2.0).fresh == CONTENT[700:]
    assert logs.read("j-1", 1, 0, 3000) == CONTENT
    logs.close_all()
