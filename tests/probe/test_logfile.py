"""The log of an attempt on a disk that is full, small or pulled away."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.probe.logfile import LogFile

RING = 64 * 1024


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB; needs root."""
    path = tmp_path / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "orch-test", str(path)]
    done = subprocess.run(mount, check=False, capture_output=True)
    if done.returncode != 0:
        if os.environ.get("CI"):
            pytest.fail(f"CI must be able to mount a small tmpfs: {done.stderr!r}")
        pytest.skip("a small tmpfs cannot be mounted here (not root)")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


def gaps(folder: Path) -> list[dict[str, object]]:
    """What gaps.jsonl says."""
    lines = (folder / "gaps.jsonl").read_text().split("\n")
    return [json.loads(line) for line in lines if line]


def test_bytes_wait_for_room_and_none_is_lost(disk: Path) -> None:
    """As long as they fit into memory, a full disk loses nothing."""
    log = LogFile(str(disk), ring_bytes=RING)
    (disk / "filler").write_bytes(b"f" * 200_000)
    chunks = [bytes([65 + i % 26]) * 1000 for i in range(90)]
    for chunk in chunks:
        log.append(chunk)
    assert log.behind
    assert log.retry() is False
    (disk / "filler").unlink()
    assert log.retry() is True
    assert (disk / "output.log").read_bytes() == b"".join(chunks)
    assert gaps(disk) == []


def test_the_newest_bytes_are_kept_and_the_rest_is_one_gap(disk: Path) -> None:
    """The end of a log is what explains a crash; the gap says where and how much is missing."""
    log = LogFile(str(disk), ring_bytes=RING)
    (disk / "filler").write_bytes(b"f" * 200_000)
    whole = b"".join(b"%07d\n" % i for i in range(50_000))
    for at in range(0, len(whole), 1000):
        log.append(whole[at : at + 1000])
    (disk / "filler").unlink()
    assert log.retry() is True
    stored = (disk / "output.log").read_bytes()
    (gap,) = gaps(disk)
    at = int(str(gap["offset"]))
    assert gap["size"] == log.dropped_bytes == len(whole) - len(stored)
    assert gap["reason"] == "disk_full"
    assert stored[:at] == whole[:at]
    assert len(stored[at:]) == RING
    assert stored[at:] == whole[-RING:]


def test_what_never_found_room_is_a_gap_at_the_end(disk: Path) -> None:
    """The record of the gap needs no room that the disk does not have."""
    log = LogFile(str(disk), ring_bytes=RING)
    (disk / "filler").write_bytes(b"f" * 200_000)
    for _ in range(100):
        log.append(b"x" * 1000)
    log.give_up()
    (gap,) = gaps(disk)
    assert (gap["offset"], gap["size"]) == (log.size, 100_000 - log.size)
    assert not log.behind


def test_a_log_that_was_renamed_goes_on_in_a_new_file(tmp_path: Path) -> None:
    """As after a log rotation; what was written before stays where it was moved to."""
    log = LogFile(str(tmp_path))
    log.append(b"old")
    (tmp_path / "output.log").rename(tmp_path / "output.log.1")
    log.reopen_if_moved()
    log.append(b"new")
    assert (tmp_path / "output.log.1").read_bytes() == b"old"
    assert (tmp_path / "output.log").read_bytes() == b"new"
