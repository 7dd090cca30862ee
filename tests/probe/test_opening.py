"""Nothing that a program puts in the place of a run's file is followed, waited for or read."""

import json
import os
import time
from pathlib import Path

import pytest

from orchestrator.probe.files import (
    identity_in,
    read_record,
    reserve,
    write_record,
    write_reserved,
)
from orchestrator.probe.follow import Follower
from orchestrator.probe.frames import MAX_FRAME_BYTES, unpack
from orchestrator.probe.logfile import LogFile
from orchestrator.probe.opening import MOST_BYTES, Misplaced, open_fifo, open_file, read_file
from orchestrator.probe.spec import read_spec

PLANTED = ("link", "dangling", "fifo", "folder", "second name")
SECRET = b"not for the run"


def plant(place: Path, what: str, victim: Path) -> None:
    """Put something else in a file's place."""
    if what == "link":
        place.symlink_to(victim)
    elif what == "dangling":
        place.symlink_to(victim.with_name("new"))
    elif what == "fifo":
        os.mkfifo(place)
    elif what == "folder":
        place.mkdir()
    else:
        place.hardlink_to(victim)


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file that is none of the run's."""
    path = tmp_path / "victim"
    path.write_bytes(SECRET)
    return path


@pytest.fixture
def attempt(tmp_path: Path) -> Path:
    """An attempt's folder."""
    path = tmp_path / "attempt-1"
    path.mkdir()
    return path


@pytest.mark.parametrize("what", PLANTED)
def test_a_relay_writes_through_nothing_that_lies_in_its_log_s_place(
    attempt: Path, victim: Path, what: str
) -> None:
    """The file that it has goes on, one gap says so, and nothing else is touched or made."""
    log = LogFile(str(attempt))
    log.append(b"before ")
    (attempt / "output.log").rename(attempt / "x")
    plant(attempt / "output.log", what, victim)
    log.reopen_if_moved()
    log.append(b"after")
    log.reopen_if_moved()
    assert (attempt / "x").read_bytes() == b"before after"
    assert victim.read_bytes() == SECRET
    assert not victim.with_name("new").exists()
    lines = (attempt / "gaps.jsonl").read_text().split("\n")
    gaps = [json.loads(line) for line in lines if line]
    assert gaps == [{"offset": 7, "size": 0, "reason": "replaced"}]


def test_a_relay_goes_on_in_a_new_log_once_its_place_is_free(attempt: Path, victim: Path) -> None:
    """What lay there has been taken away again."""
    log = LogFile(str(attempt))
    (attempt / "output.log").rename(attempt / "x")
    (attempt / "output.log").symlink_to(victim)
    log.reopen_if_moved()
    (attempt / "output.log").unlink()
    log.reopen_if_moved()
    log.append(b"anew")
    assert (attempt / "output.log").read_bytes() == b"anew"


def test_a_relay_stays_in_the_folder_that_it_began_in(attempt: Path, tmp_path: Path) -> None:
    """A link in the place of the folder leads no file of the relay elsewhere."""
    log = LogFile(str(attempt))
    attempt.rename(tmp_path / "moved")
    (tmp_path / "elsewhere").mkdir()
    attempt.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "moved" / "output.log").unlink()
    log.reopen_if_moved()
    log.append(b"here")
    assert (tmp_path / "moved" / "output.log").read_bytes() == b"here"
    assert list((tmp_path / "elsewhere").iterdir()) == []
    with pytest.raises(Misplaced):
        open_file(str(attempt / "output.log"), os.O_WRONLY | os.O_CREAT)


@pytest.mark.parametrize("what", PLANTED[:-1])
def test_a_probe_reads_nothing_that_lies_in_a_log_s_place(
    attempt: Path, victim: Path, what: str
) -> None:
    """Neither into the log of the run nor as a record; a gap says so once."""
    place = attempt / "output.log"
    plant(place, what, victim)
    follower = Follower("log", str(place), 0)
    frames = [*follower.step(), *follower.step()]
    assert [(one["kind"], one["reason"]) for one in frames] == [("gap", "replaced")]
    (attempt / "output.log").rename(attempt / "exit.json")
    victim.write_text("{}")
    assert read_record(str(attempt / "exit.json")) is None


@pytest.mark.parametrize("what", PLANTED[:-1])
def test_a_probe_that_reads_a_log_reads_on_in_it(attempt: Path, victim: Path, what: str) -> None:
    """Bytes behind the change are those of the file that was moved away."""
    place = attempt / "output.log"
    place.write_bytes(b"before ")
    follower = Follower("log", str(place), 0)
    frames = follower.step()
    place.rename(attempt / "x")
    plant(place, what, victim)
    frames += follower.step()
    with (attempt / "x").open("ab") as file:
        file.write(b"after")
    deadline = time.monotonic() + 30.0
    while len(frames) < 2 and time.monotonic() < deadline:
        follower.linger()
        frames += follower.step()
    assert b"".join(unpack(one["data"]) for one in frames) == b"before after"


def test_an_adopted_program_s_own_file_is_read_through_our_link(
    attempt: Path, victim: Path
) -> None:
    """That link was made by orch itself, and the daemon says so."""
    (attempt / "output.log").symlink_to(victim)
    (frame,) = Follower("log", str(attempt / "output.log"), 0, linked=True).step()
    assert unpack(frame["data"]) == SECRET


@pytest.mark.parametrize("what", PLANTED[:3])
def test_a_record_is_written_although_its_file_was_replaced(
    attempt: Path, victim: Path, what: str
) -> None:
    """The exit record is; what lay in its way is left, or its name is taken back."""
    path = str(attempt / "exit.json")
    reserved = reserve(path)
    Path(reserved).unlink()
    plant(Path(reserved), what, victim)
    plant(Path(path), what, victim)
    write_reserved(reserved, path, {"code": 3})
    assert read_record(path) == {"code": 3}
    assert victim.read_bytes() == SECRET
    write_record(path, {"code": 4})
    assert read_record(path) == {"code": 4}


def test_a_launch_goes_into_no_file(attempt: Path, victim: Path) -> None:
    """The environment, secrets included, is written to a FIFO or not at all."""
    (attempt / "spec").symlink_to(victim)
    with pytest.raises(Misplaced):
        open_fifo(str(attempt / "spec"), os.O_WRONLY)
    assert read_spec(str(attempt / "spec"), 1.0) is None
    (attempt / "poke").write_bytes(b"")
    with pytest.raises(Misplaced):
        open_fifo(str(attempt / "poke"), os.O_RDWR)


def test_what_a_relay_makes_is_its_users_alone(attempt: Path) -> None:
    """Output and records may hold what nobody else is to read, whatever the umask leaves open."""
    before = os.umask(0)
    try:
        LogFile(str(attempt)).append(b"output")
        write_record(str(attempt / "exit.json"), {"code": 0})
    finally:
        os.umask(before)
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in attempt.iterdir()}
    assert modes == dict.fromkeys(("output.log", "gaps.jsonl", "exit.json"), "0o600")


def test_a_file_is_read_as_far_as_it_is_no_flood(attempt: Path) -> None:
    """A program decides how large its files are, and a hole costs it nothing."""
    with (attempt / "gaps.jsonl").open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    assert len(read_file(str(attempt / "gaps.jsonl"))) == MOST_BYTES


@pytest.mark.parametrize(
    "content",
    ['{"x": "' + "x" * MAX_FRAME_BYTES + '"}', "[" * 100_000 + "]" * 100_000, "[]", "{", "\xff"],
    ids=["too large", "too deep", "a list", "torn", "no UTF-8"],
)
def test_what_is_no_record_is_none(attempt: Path, content: str) -> None:
    """A program may write its own in the record's place, and the reader goes on."""
    (attempt / "exit.json").write_bytes(content.encode("latin-1"))
    assert read_record(str(attempt / "exit.json")) is None


@pytest.mark.parametrize("number", [None, "7", True, 7.0, 0, -1, 1 << 31])
def test_what_names_no_process_names_none(number: object) -> None:
    """A program may write its record: what is no PID is never signalled, and 0 or -1 are many."""
    assert identity_in({"pid": number, "start": 5}, "pid", "start") is None


@pytest.mark.parametrize("began", [None, "5", True, 5.0, -1, 1 << 62])
def test_what_is_no_start_names_no_process(began: object) -> None:
    """Without the time at which it began a PID names nobody."""
    assert identity_in({"pid": 7, "start": began}, "pid", "start") is None
    assert identity_in({"pid": 7, "start": 5}, "pid", "start") == (7, 5)
