"""Log segments: exact by offset, through duplicates, holes, rotation, compression and kill -9."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.core.errors import StoreError
from orchestrator.store.logs import Logs


def stored(logs: Logs, run: str, attempt: int) -> int:
    """How many bytes are there, holes not counted."""
    return sum(len(part) for _, part in logs.parts(run, attempt))


def gaps(logs: Logs, run: str, attempt: int) -> tuple[tuple[int, int], ...]:
    """Offset and size of each hole, in order."""
    found, end = [], 0
    for offset, part in logs.parts(run, attempt):
        if offset > end:
            found.append((end, offset - end))
        end = offset + len(part)
    return tuple(found)


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[Logs]:
    """Logs with segments of 64 bytes, so that every test crosses some."""
    opened = Logs(tmp_path / "logs", segment_bytes=64)
    yield opened
    opened.close_all()


def test_appended_bytes_come_back(logs: Logs) -> None:
    """What was appended in parts is read whole, by range and from the tail."""
    whole = bytes(range(256)) * 3
    for start in range(0, len(whole), 50):
        logs.append("j-1", 1, start, whole[start : start + 50], 1.0)
    assert logs.end("j-1", 1) == stored(logs, "j-1", 1) == len(whole)
    assert logs.read("j-1", 1, 0, 10_000) == whole
    assert logs.read("j-1", 1, 100, 200) == whole[100:300]
    assert logs.tail("j-1", 1, 130) == whole[-130:]
    assert logs.tail("j-1", 1, 10_000) == whole


def test_known_bytes_are_skipped(logs: Logs) -> None:
    """A chunk sent again after a reconnect adds only what is new."""
    logs.append("j-1", 1, 0, b"abcdef", 1.0)
    assert logs.append("j-1", 1, 0, b"abcdef", 2.0).fresh == b""
    assert logs.append("j-1", 1, 3, b"defghi", 2.0).fresh == b"ghi"
    assert logs.read("j-1", 1, 0, 99) == b"abcdefghi"


def test_hole_is_kept_as_a_gap(logs: Logs) -> None:
    """Bytes behind a hole keep their offsets, and the hole has its place and size."""
    logs.append("j-1", 1, 0, b"abc", 1.0)
    assert logs.append("j-1", 1, 10, b"xyz", 2.0).gap == 7
    logs.gap("j-1", 1, 13, 5)
    assert logs.end("j-1", 1) == 18
    logs.append("j-1", 1, 18, b"!", 3.0)
    assert gaps(logs, "j-1", 1) == ((3, 7), (13, 5))
    assert list(logs.parts("j-1", 1)) == [(0, b"abc"), (10, b"xyz"), (18, b"!")]


def test_parts_come_from_the_end_too(logs: Logs) -> None:
    """Backwards, each part keeps its offset, and nothing behind the given end is in it."""
    for at in range(0, 300, 50):
        logs.append("j-1", 1, at, b"x" * 49 + b"\n", 1.0)
    there = list(logs.parts("j-1", 1))
    assert len(there) > 2
    assert list(logs.parts_up("j-1", 1)) == there[::-1]
    assert b"".join(part for _, part in [*logs.parts_up("j-1", 1, 120)][::-1]) == logs.read(
        "j-1", 1, 0, 120
    )


def test_hole_at_the_beginning(logs: Logs) -> None:
    """A log whose first bytes were lost begins where it begins."""
    logs.append("j-1", 1, 100, b"abc", 1.0)
    assert gaps(logs, "j-1", 1) == ((0, 100),)
    assert logs.read("j-1", 1, 0, 99) == b"abc"


def test_end_is_found_again(logs: Logs, tmp_path: Path) -> None:
    """A second daemon goes on at the byte where the first one was killed."""
    logs.append("j-1", 1, 0, b"x" * 100, 1.0)
    logs.append("j-1", 1, 200, b"y" * 30, 1.0)
    second = Logs(tmp_path / "logs", segment_bytes=64)
    assert second.end("j-1", 1) == 230
    second.append("j-1", 1, 225, b"y" * 5 + b"z" * 5, 1.0)
    assert second.read("j-1", 1, 195, 99) == b"y" * 30 + b"z" * 5
    second.close_all()


def test_closed_log_is_compressed_and_reads_the_same(logs: Logs, tmp_path: Path) -> None:
    """Compression changes files and nothing else, and an attempt may go on after it."""
    whole = b"step 1 loss 2.0\n" * 40
    logs.append("j-1", 1, 0, whole, 1.0)
    logs.close("j-1", 1)
    logs.close_all()
    folder = tmp_path / "logs" / "j-1" / "1"
    assert {path.suffix for path in folder.iterdir()} == {".zst", ""}
    again = Logs(tmp_path / "logs", segment_bytes=64)
    assert again.end("j-1", 1) == len(whole)
    assert again.read("j-1", 1, 7, 100) == whole[7:107]
    assert again.tail("j-1", 1, 33) == whole[-33:]
    again.append("j-1", 1, len(whole), b"more", 2.0)
    assert again.read("j-1", 1, 0, 10_000) == whole + b"more"
    again.close_all()


def test_log_that_goes_on_while_it_is_compressed(tmp_path: Path) -> None:
    """Closing and appending in turn loses no byte to the compressor's thread."""
    logs = Logs(tmp_path / "logs")
    chunk = b"0123456789" * 2000
    for number in range(60):
        logs.append("j-1", 1, number * len(chunk), chunk, 1.0)
        logs.close("j-1", 1)
    assert stored(logs, "j-1", 1) == 60 * len(chunk)
    logs.close_all()
    assert Logs(tmp_path / "logs").read("j-1", 1, 0, 10**9) == chunk * 60


def test_kill_in_the_compressor_loses_nothing(logs: Logs, tmp_path: Path) -> None:
    """Where both forms of a segment lie there, the bytes are there once."""
    logs.append("j-1", 1, 0, b"abc" * 10, 1.0)
    (segment,) = (tmp_path / "logs" / "j-1" / "1").glob("*.log")
    segment.with_suffix(".zst").write_bytes(b"torn")
    assert logs.read("j-1", 1, 0, 99) == b"abc" * 10


def test_times(logs: Logs) -> None:
    """A time leads to the offset of what was seen then, to a second."""
    for second in range(5):
        logs.append("j-1", 1, second * 10, b"0123456789", 100.0 + second)
    assert logs.offset_at("j-1", 1, 102.5) == 20
    assert logs.offset_at("j-1", 1, 1.0) == 0
    assert logs.offset_at("j-1", 1, 103.9) == 30
    assert logs.offset_at("j-1", 1, 200.0) == 50
    logs.append("j-1", 1, 50, b"0123456789", 300.0)
    assert logs.offset_at("j-1", 1, 200.0) == 50


def test_attempts_and_runs(logs: Logs) -> None:
    """Logs are listed, measured and forgotten by run."""
    logs.append("j-1", 2, 0, b"abc", 1.0)
    logs.append("j-1", 10, 0, b"abc", 1.0)
    logs.append("k-1", 1, 0, b"abc", 1.0)
    assert logs.attempts("j-1") == (2, 10)
    assert logs.runs() == ("j-1", "k-1")
    assert logs.disk_bytes("k-1") >= 3
    logs.forget("j-1")
    assert logs.runs() == ("k-1",)
    assert logs.end("j-1", 2) == 0


@pytest.mark.parametrize("run", ["../x", "a/b", "", ".", "-x", "a\nb"])
def test_run_names_that_are_paths(logs: Logs, run: str) -> None:
    """A name that could leave the folder is refused."""
    with pytest.raises(StoreError, match="is no run's id"):
        logs.append(run, 1, 0, b"x", 1.0)


def test_full_disk_is_said_and_survived(tmp_path: Path) -> None:
    """On a full disk appending fails with a sentence; with space again it goes on at its end."""
    logs = Logs(tmp_path / "logs")
    logs.append("j-1", 1, 0, b"abc", 1.0)
    (segment,) = (tmp_path / "logs" / "j-1" / "1").glob("*.log")
    content = segment.read_bytes()
    logs.close_all()
    logs = Logs(tmp_path / "logs")
    segment.unlink()
    segment.symlink_to("/dev/full")
    with pytest.raises(StoreError, match=r"j-1 cannot be stored: No space left.*Free some space"):
        logs.append("j-1", 1, 0, b"defg", 2.0)
    segment.unlink()
    segment.write_bytes(content)
    assert logs.end("j-1", 1) == 3
    assert logs.append("j-1", 1, 3, b"defg", 3.0).fresh == b"defg"
    assert logs.read("j-1", 1, 0, 99) == b"abcdefg"
    logs.close_all()


_KILLED = """
import os, signal, sys
from pathlib import Path
from orchestrator.store.logs import Logs
logs = Logs(Path(sys.argv[1]), segment_bytes=1000)
offset = 0
while True:
    logs.append("j-1", 1, offset, b"%09d\\n" % (offset // 10), 1.0)
    offset += 10
    os.write(1, b"%d\\n" % offset)
"""


def test_kill_9_loses_no_appended_byte(tmp_path: Path) -> None:
    """After kill -9 every byte that append returned for is there, and none is there twice."""
    child = subprocess.Popen(
        [sys.executable, "-c", _KILLED, str(tmp_path)], stdout=subprocess.PIPE, bufsize=0
    )
    assert child.stdout is not None
    seen = b""
    while seen.count(b"\n") < 400:
        seen += os.read(child.stdout.fileno(), 65536)
    child.send_signal(signal.SIGKILL)
    seen += child.stdout.read()
    child.wait()
    child.stdout.close()
    promised = int(seen[: seen.rindex(b"\n")].splitlines()[-1])
    logs = Logs(tmp_path)
    end = logs.end("j-1", 1)
    expected = b"".join(b"%09d\n" % number for number in range(end // 10 + 1))[:end]
    assert end >= promised
    assert logs.read("j-1", 1, 0, end) == expected
    logs.close_all()


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    chunks=st.lists(st.tuples(st.integers(0, 300), st.integers(0, 120), st.booleans()), max_size=25)
)
def test_any_order_of_chunks(
    tmp_path_factory: pytest.TempPathFactory, chunks: list[tuple[int, int, bool]]
) -> None:
    """Whatever chunks come, each stored byte is the source's byte at its offset."""
    source = bytes(number % 251 for number in range(500))
    folder = tmp_path_factory.mktemp("logs")
    logs = Logs(folder, segment_bytes=64)
    end = 0
    for offset, size, reopen in chunks:
        chunk = source[offset : offset + size]
        appended = logs.append("j-1", 1, offset, chunk, 1.0)
        assert appended.fresh == chunk[max(0, end - offset) :]
        end = max(end, offset + len(chunk)) if chunk else end
        assert logs.end("j-1", 1) == end
        if reopen:
            logs.close("j-1", 1)
            if len(chunk) % 2:
                logs.close_all()
                logs = Logs(folder, segment_bytes=64)
    for offset, part in logs.parts("j-1", 1):
        assert part == source[offset : offset + len(part)]
    holes = sum(size for _, size in gaps(logs, "j-1", 1))
    assert stored(logs, "j-1", 1) + holes == end
    logs.close_all()
