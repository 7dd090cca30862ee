"""How often a stream sends: at once after a pause, seldom while lines keep coming, never late."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.probe.follow import Follower
from orchestrator.probe.frames import CHUNK_BYTES, unpack
from orchestrator.probe.names import POKE_BYTES, POKE_FIFO, POKE_STEADY
from orchestrator.probe.pace import HURRY_S, STEADY_S, TRICKLE_BYTES, next_look
from orchestrator.probe.poke import Poke
from tests.probe.driver import Driver, Run

FOR_EVER_S = 3600.0


def sent(follower: Follower) -> bytes:
    """The bytes of one step."""
    return b"".join(unpack(frame["data"]) for frame in follower.step())


def may_send(follower: Follower) -> bool:
    """Whether a step would send."""
    return follower.ready


def append(log: Path, chunk: bytes, follower: Follower) -> None:
    """Write, and say so."""
    with log.open("ab") as file:
        file.write(chunk)
    follower.more = True


def test_lines_that_keep_coming_share_a_frame(tmp_path: Path) -> None:
    """The first line goes at once; what follows within the pace waits, and goes together."""
    log = tmp_path / "output.log"
    follower = Follower("log", str(log), 0, pace_s=FOR_EVER_S)
    append(log, b"one\n", follower)
    assert may_send(follower)
    assert sent(follower) == b"one\n"
    append(log, b"two\n", follower)
    append(log, b"three\n", follower)
    assert not may_send(follower)
    assert 0.0 < follower.wait_s <= FOR_EVER_S
    follower.final = True
    assert may_send(follower)
    assert sent(follower) == b"two\nthree\n"


def test_a_line_after_a_pause_goes_at_once(tmp_path: Path) -> None:
    """Once the pace is over nothing waits."""
    log = tmp_path / "output.log"
    follower = Follower("log", str(log), 0, pace_s=0.0)
    for line in (b"one\n", b"two\n"):
        append(log, line, follower)
        assert may_send(follower)
        assert sent(follower) == line


def test_a_flood_is_not_held_back(tmp_path: Path) -> None:
    """While there is more than a chunk, each one goes as soon as there is room for it."""
    log = tmp_path / "output.log"
    follower = Follower("log", str(log), 0, pace_s=FOR_EVER_S)
    append(log, b"x" * (2 * CHUNK_BYTES + 1), follower)
    sizes = []
    while may_send(follower):
        sizes.append(len(sent(follower)))
    assert sizes == [CHUNK_BYTES, CHUNK_BYTES, 1]


def test_what_matters_does_not_wait_for_the_pace(tmp_path: Path) -> None:
    """A hurried look comes long before the next common moment."""
    log = tmp_path / "output.log"
    follower = Follower("log", str(log), 0, pace_s=FOR_EVER_S)
    append(log, b"step 1\n", follower)
    assert sent(follower) == b"step 1\n"
    append(log, b"Traceback\n", follower)
    follower.hurry()
    assert follower.wait_s <= HURRY_S
    until(lambda: follower.ready)
    assert sent(follower) == b"Traceback\n"


def test_steady_lines_are_found_without_a_word_until_they_end(tmp_path: Path) -> None:
    """A stream that was said to be steady is looked at until it has been quiet for a while."""
    log = tmp_path / "output.log"
    follower = Follower("log", str(log), 0)
    append(log, b"one\n", follower)
    assert sent(follower) == b"one\n"
    follower.linger()
    with log.open("ab") as file:
        file.write(b"two\n")
    until(lambda: follower.ready)
    assert sent(follower) == b"two\n"
    looks = 0
    while follower.more:
        until(lambda: follower.ready)
        assert not follower.step()
        looks += 1
    assert looks >= 2


def test_one_that_begins_among_steady_lines_finds_them(tmp_path: Path) -> None:
    """The relay has said before that they come, and says it to nobody again."""
    log = tmp_path / "output.log"
    log.write_bytes(b"one\n")
    follower = Follower("log", str(log), 0)
    assert sent(follower) == b"one\n"
    with log.open("ab") as file:
        file.write(b"two\n")
    until(lambda: follower.ready)
    assert sent(follower) == b"two\n"


@pytest.mark.tmux
def test_steady_lines_share_frames_and_none_is_lost(probe: Driver, a_run: Run) -> None:
    """The real relay and probe: fewer frames than lines, every byte in order."""
    lines = 40
    program = "i=0; while [ $i -lt 40 ]; do echo line $i; i=$((i+1)); sleep 0.04; done"
    probe.call("launch", **a_run.spec("sh", "-c", program))
    probe.call("watch", **a_run.watch())
    probe.kind("exit")
    frames = [one for one in probe.frames if one["kind"] == "bytes" and one["stream"] == "log"]
    printed = b"".join(unpack(one["data"]) for one in frames)
    assert printed.split(b"\r\n")[:-1] == [b"line %d" % number for number in range(lines)]
    assert len(frames) < lines


def test_an_end_is_not_lingered_for(tmp_path: Path) -> None:
    """Where nobody writes any more, an empty look is the last."""
    log = tmp_path / "output.log"
    follower = Follower("log", str(log), 0, pace_s=FOR_EVER_S)
    append(log, b"one\n", follower)
    follower.linger()
    follower.final = True
    assert sent(follower) == b"one\n"
    assert not sent(follower)
    assert not follower.more


def test_all_look_at_the_same_moments() -> None:
    """Two probes that read at different times look again together, and neither at once."""
    assert next_look(10.01) == next_look(10.04)
    assert next_look(10.0499) - 10.0499 >= HURRY_S
    late = next_look(10.3) - 0.001
    assert next_look(late) - late >= HURRY_S


def test_a_trickle_is_told_of_once(tmp_path: Path) -> None:
    """The relay pokes for the first line, says that they go on, and then keeps still."""
    poke, pokes = Poke(str(tmp_path)), heard(tmp_path)
    for moment in (100.0, 100.1, 100.2, 100.3):
        poke.wrote(b"step 1 loss 2.0\n", moment, moment + 0.001)
    assert pokes() == POKE_BYTES + POKE_STEADY
    poke.wrote(b"step 5 loss 2.0\n", 100.4, 100.401)
    assert pokes() == b""


def test_a_line_after_a_pause_is_told_of(tmp_path: Path) -> None:
    """A write that the probe may no longer look out for has a poke of its own."""
    poke, pokes = Poke(str(tmp_path)), heard(tmp_path)
    for moment in (100.0, 100.1, 100.101 + STEADY_S):
        poke.wrote(b"step 1 loss 2.0\n", moment, moment)
    assert pokes() == POKE_BYTES + POKE_STEADY + POKE_BYTES


@pytest.mark.parametrize(
    "output", [b"Traceback (most recent call last):\n", b"RuntimeError: x\n", b"x" * TRICKLE_BYTES]
)
def test_what_may_be_a_crash_is_told_of_at_once(tmp_path: Path, output: bytes) -> None:
    """Among steady lines too, and so is what follows: its end says what it was."""
    poke, pokes = Poke(str(tmp_path)), heard(tmp_path)
    for moment in (100.0, 100.1, 100.2):
        poke.wrote(b"step 1\n", moment, moment)
    assert pokes() == POKE_BYTES + POKE_STEADY
    poke.wrote(output, 100.25, 100.25)
    assert pokes() == POKE_BYTES
    poke.wrote(b"the rest\n", 100.251, 100.251)
    wait_s = poke.wait_s(100.251)
    assert wait_s is not None
    poke.late(100.251 + wait_s)
    assert pokes() == POKE_BYTES


def heard(folder: Path) -> Callable[[], bytes]:
    """What came through the FIFO since the last call."""
    fd = os.open(folder / POKE_FIFO, os.O_RDONLY | os.O_NONBLOCK)

    def read() -> bytes:
        try:
            return os.read(fd, 1000)
        except BlockingIOError:
            return b""

    return read


def until(holds: Callable[[], bool], within_s: float = 30.0) -> None:
    """Wait for something."""
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)
