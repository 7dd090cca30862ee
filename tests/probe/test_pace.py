"""How often a stream sends: at once after a pause, seldom while lines keep coming, never late."""

from pathlib import Path

from orchestrator.probe.follow import Follower
from orchestrator.probe.frames import CHUNK_BYTES, unpack

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
