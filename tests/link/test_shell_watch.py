"""One attempt watched by the plain shell: what LOOK printed becomes the frames of a probe."""

import json
from typing import Any

import pytest

from orchestrator.link.shell_watch import ShellWatch
from orchestrator.probe.frames import WINDOW_BYTES, Frame, unpack

RECORD = {"code": 0, "signal": None, "raw": 0, "started_at": 1, "ended_at": 2}


def watch(**offsets: int) -> ShellWatch:
    """A watch that begins at these offsets."""
    return ShellWatch({"watch": "w", "attempt_dir": "/a", "metrics_path": "/m", **offsets})


def look(
    log: bytes, *, total: int | None = None, record: dict[str, Any] | None = None, alive: int = 1
) -> bytes:
    """What LOOK prints; `total` is the log's size where it is not all read."""
    size = len(log) if total is None else total
    head = f"{alive} {size} {len(log)} 0 0 1700000000\n".encode()
    return head + (json.dumps(record) if record else "").encode() + b"\n" + log


def kinds(frames: list[Frame]) -> list[str]:
    """Their kinds."""
    return [frame["kind"] for frame in frames]


def test_bytes_come_once_and_the_record_last() -> None:
    """Each look begins where the last one ended; the end comes when everything is read."""
    one = watch()
    (first,) = one.frames(look(b"a\n\x00b"))
    assert (first["offset"], unpack(first["data"]), first["watch"]) == (0, b"a\n\x00b", "w")
    assert one.words[1] == "4"
    more = one.frames(look(b"cd", total=9, record=RECORD))
    assert kinds(more) == ["bytes"]
    assert one.more
    last = one.frames(look(b"efg", total=9, record=RECORD))
    assert kinds(last) == ["bytes", "exit"]
    assert last[1]["record"] == RECORD
    assert one.over


def test_a_shell_that_died_is_gone_after_a_second_look() -> None:
    """Between its end and its record there is a moment in which neither is there."""
    one = watch()
    assert one.frames(look(b"", alive=0)) == []
    assert kinds(one.frames(look(b"", alive=0, record=RECORD))) == ["exit"]
    other = watch()
    assert other.frames(look(b"", alive=0)) == []
    assert kinds(other.frames(look(b"", alive=0))) == ["gone"]


def test_a_log_that_was_cut_begins_anew() -> None:
    """A file that is shorter than what was read is told as a gap, and read from its start."""
    one = watch(log_offset=10)
    (gap,) = one.frames(look(b"", total=3))
    assert (gap["kind"], gap["reason"], gap["next"]) == ("gap", "truncated", 0)
    assert one.words[1] == "0"


def test_what_is_not_stored_yet_closes_the_window() -> None:
    """Nothing more is read until the daemon has stored what it has."""
    one = watch()
    while int(one.words[-1]):
        size = int(one.words[-1])
        one.frames(look(b"x" * size, total=2 * WINDOW_BYTES))
    one.acknowledge("log", WINDOW_BYTES)
    assert int(one.words[-1]) > 0


def test_a_torn_answer_is_no_answer() -> None:
    """Fewer bytes than were said: the look is as good as none."""
    one = watch()
    with pytest.raises(ValueError, match="3 bytes came"):
        one.frames(look(b"abcd")[:-1])
    assert one.words[1] == "0"
