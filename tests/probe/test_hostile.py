"""What a night does to a run: everything around it is killed, and no byte and no end is lost."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestrator.probe.frames import CHUNK_BYTES, WINDOW_BYTES, unpack
from tests.probe.driver import Driver, Run, eventually

pytestmark = pytest.mark.tmux

COUNT = (
    'i=0; while [ $i -lt 300 ]; do i=$((i+1)); echo "line $i of a log"; sleep 0.01; done; exit 5'
)
COUNTED = b"".join(b"line %d of a log\r\n" % (i + 1) for i in range(300))


def attempt_record(run: Run) -> dict[str, int]:
    """The relay's own record of the attempt."""
    record: dict[str, int] = json.loads((run.attempt() / "attempt.json").read_text())
    return record


def test_the_death_of_the_tmux_server_leaves_the_run_alone(
    probe: Driver, a_run: Run, tmux: Callable[..., str]
) -> None:
    """The session is told as detached; log and exit are those of an undisturbed run."""
    probe.call("launch", **a_run.spec("sh", "-c", COUNT))
    probe.call("watch", **a_run.watch())
    probe.until_stream(a_run.run, len)
    tmux("kill-server")
    assert probe.kind("session", watch=a_run.run)["detached"] is True
    assert probe.kind("exit")["record"]["code"] == 5
    assert probe.stream(a_run.run) == COUNTED == a_run.log()


def test_a_probe_killed_and_started_again_goes_on_at_the_offset(
    start: Callable[..., Driver], a_run: Run
) -> None:
    """No byte is missing and none comes twice, though the first probe was killed with -9."""
    first = start(generation=1)
    first.call("launch", **a_run.spec("sh", "-c", COUNT))
    first.call("watch", **a_run.watch())
    first.until_stream(a_run.run, lambda log: len(log) > 500)
    first.popen.kill()
    first.popen.wait()
    stored = first.stream(a_run.run)
    second = start(generation=2)
    second.call("watch", **a_run.watch(log_offset=len(stored)))
    assert second.kind("exit")["record"]["code"] == 5
    assert stored + second.stream(a_run.run) == COUNTED


def test_a_relay_killed_with_9_is_gone_and_not_ended(probe: Driver, a_run: Run) -> None:
    """Nobody knows how the program ended, and the frame says just that."""
    probe.call("launch", **a_run.spec("sh", "-c", "echo before; sleep 100"))
    probe.call("watch", **a_run.watch())
    probe.until_stream(a_run.run, lambda log: b"before" in log)
    os.kill(attempt_record(a_run)["relay_pid"], signal.SIGKILL)
    assert probe.kind("gone", watch=a_run.run)["reason"] == "relay_ended"
    assert not any(frame["kind"] == "exit" for frame in probe.frames)


def test_lines_of_a_program_among_the_gaps_end_no_probe(probe: Driver, a_run: Run) -> None:
    """What is no gap in gaps.jsonl is passed over, and the run is followed to its end."""
    junk = '\'x}\' \'{"offset":"a","size":1,"reason":"r"}\' \'[1]}\' \'{"offset":-1,"size":2}\''
    program = f"cd {a_run.attempt()}; printf '%s\\n' {junk} > gaps.jsonl; echo on; exit 4"
    probe.call("launch", **a_run.spec("sh", "-c", program))
    probe.call("watch", **a_run.watch())
    assert probe.kind("exit", watch=a_run.run)["record"]["code"] == 4
    assert probe.stream(a_run.run) == b"on\r\n"


@pytest.mark.parametrize(
    ("program", "code", "number"),
    [("kill -9 $$", None, 9), ("exit 137", 137, None), ("kill -11 $$", None, 11)],
)
def test_a_signal_and_its_exit_code_are_told_apart(
    probe: Driver, a_run: Run, program: str, code: int | None, number: int | None
) -> None:
    """`exit 137` is a code, kill -9 is a signal; `$?` could not say which."""
    probe.call("launch", **a_run.spec("sh", "-c", program))
    probe.call("watch", **a_run.watch())
    record = probe.kind("exit")["record"]
    assert (record["code"], record["signal"]) == (code, number)


def test_binary_output_is_kept_byte_for_byte(probe: Driver, a_run: Run) -> None:
    """Every byte value and broken UTF-8; all the terminal does is put CR before LF."""
    program = "import os; os.write(1, bytes(range(256)) * 200 + b'\\xff\\xfe end')"
    probe.call("launch", **a_run.spec("python3", "-c", program))
    probe.call("watch", **a_run.watch())
    probe.kind("exit")
    expected = (bytes(range(256)) * 200 + b"\xff\xfe end").replace(b"\n", b"\r\n")
    assert probe.stream(a_run.run) == expected == a_run.log()


def test_a_flood_is_stored_whole(probe: Driver, a_run: Run) -> None:
    """50 MB as fast as a terminal takes them, half of it one line: all of it is stored and sent."""
    program = "head -c 25000000 /dev/zero | tr '\\0' x; yes 0123456789012345678 | head -c 25000000"
    probe.call("launch", **a_run.spec("sh", "-c", program))
    probe.call("watch", **a_run.watch())
    probe.until(lambda f: f["kind"] == "exit", within_s=50.0)
    lines = b"0123456789012345678\r\n" * (25_000_000 // 20)
    expected = hashlib.sha256(b"x" * 25_000_000 + lines).hexdigest()
    assert hashlib.sha256(probe.stream(a_run.run)).hexdigest() == expected
    assert hashlib.sha256(a_run.log()).hexdigest() == expected


def test_a_flood_that_nobody_stores_does_not_starve_another_run(
    start: Callable[..., Driver], a_run: Run, folder: Path
) -> None:
    """Unacknowledged bytes stop at the window; the other watch gets its lines and its exit."""
    probe = start(acknowledge=False)
    other = Run(folder, job="other")
    flood = "head -c 20000000 /dev/zero | tr '\\0' x"
    probe.call("launch", **a_run.spec("sh", "-c", flood))
    probe.call("watch", **a_run.watch())
    probe.until_stream(a_run.run, lambda log: len(log) >= WINDOW_BYTES)
    probe.call("launch", **other.spec("sh", "-c", "echo still here"))
    probe.call("watch", **other.watch())
    probe.kind("exit", watch=other.run)
    assert probe.stream(other.run) == b"still here\r\n"
    assert len(probe.stream(a_run.run)) <= WINDOW_BYTES + CHUNK_BYTES
    probe.acknowledge = True
    for frame in [f for f in probe.frames if f["kind"] == "bytes"][-3:]:
        probe.ack(frame)
    probe.kind("exit", watch=a_run.run)
    assert len(probe.stream(a_run.run)) == 20_000_000


def test_a_descendant_that_keeps_the_terminal_does_not_hold_the_exit_record(
    probe: Driver, a_run: Run
) -> None:
    """The wait for its output is bounded; what it wrote until then is in the log."""
    probe.call(
        "launch", **a_run.spec("sh", "-c", "(echo from below; sleep 300) & sleep 0.2; exit 6")
    )
    probe.call("watch", **a_run.watch())
    assert probe.kind("exit")["record"]["code"] == 6
    assert b"from below" in probe.stream(a_run.run)


def test_a_log_that_is_cut_is_a_gap_and_goes_on(probe: Driver, a_run: Run) -> None:
    """After somebody truncates the log its new bytes come from offset 0, behind a gap."""
    program = "echo old text; read go; echo new text; read go"
    probe.call("launch", **a_run.spec("sh", "-c", program))
    probe.call("watch", **a_run.watch())
    probe.until_stream(a_run.run, lambda log: b"old text" in log)
    os.truncate(a_run.attempt() / "output.log", 0)
    gap = probe.kind("gap", watch=a_run.run)
    assert (gap["reason"], gap["offset"], gap["next"]) == ("truncated", len(b"old text\r\n"), 0)
    probe.call("signal", attempt_dir=str(a_run.attempt()), signal="HUP")
    record = probe.kind("exit")["record"]
    assert record["signal"] == signal.SIGHUP


def test_a_log_that_is_rotated_loses_nothing(probe: Driver, a_run: Run) -> None:
    """The relay goes on in a new file; the old one is read to its end before the new one begins."""
    probe.call("launch", **a_run.spec("sh", "-c", COUNT))
    probe.call("watch", **a_run.watch())
    probe.until_stream(a_run.run, len)
    (a_run.attempt() / "output.log").rename(a_run.attempt() / "output.log.1")
    probe.kind("exit")
    gap = probe.kind("gap", watch=a_run.run)
    assert (gap["reason"], gap["size"], gap["next"]) == ("rotated", 0, 0)
    chunks = [unpack(f["data"]) for f in probe.frames if f["kind"] == "bytes"]
    assert b"".join(chunks) == COUNTED


def test_metrics_arrive_without_a_poll(probe: Driver, a_run: Run) -> None:
    """A line appended to metrics.jsonl by any program is sent, though no relay pokes for it."""
    probe.call("launch", **a_run.spec("sleep", "100"))
    probe.call("watch", **a_run.watch())
    with (a_run.directory / "metrics.jsonl").open("a") as file:
        for step in range(3):
            file.write(json.dumps({"step": step}) + "\n")
            file.flush()
            wanted = b'{"step": %d}\n' % step
            probe.until_stream(a_run.run, lambda log, w=wanted: w in log, "metrics")  # type: ignore[misc]


@pytest.fixture
def small_disk(folder: Path) -> Path:
    """A file system of 6 MiB; needs root."""
    path = folder / "runs"
    path.mkdir(exist_ok=True)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=6m", "orch-test", str(path)],
        check=False,
        capture_output=True,
    )
    if done.returncode != 0:
        if os.environ.get("CI"):
            pytest.fail(f"CI must be able to mount a small tmpfs: {done.stderr!r}")
        pytest.skip("a small tmpfs cannot be mounted here (not root)")
    return path


def numbered(num_lines: int) -> bytes:
    """What the program of the full-disk tests prints."""
    return b"".join(b"%07d %s\r\n" % (i, b"x" * 40) for i in range(num_lines))


PRINTER = """
import os, time
for i in range({num_lines}):
    print("%07d %s" % (i, "x" * 40))
print(end="", flush=True)
open("printed", "w").close()
while not os.path.exists("go"):
    time.sleep(0.02)
print("after")
"""
"""Runs in the folder above the small disk."""


@pytest.fixture
def full_disk_run(small_disk: Path, start: Callable[..., Driver]) -> Iterator[Run]:
    """A run on the small disk; unmounted once its programs are ended."""
    run = Run(small_disk.parent)
    yield run
    sweeper = start(generation=1_000)
    sweeper.call("end", **{**run.end(grace_s=0.0), "session": None})
    sweeper.close()
    eventually(
        lambda: not subprocess.run(["umount", small_disk], check=False, stderr=-3).returncode,
        "the small disk is let go of",
    )


def test_a_full_disk_makes_a_gap_of_known_size_and_the_run_goes_on(
    start: Callable[..., Driver], full_disk_run: Run, small_disk: Path
) -> None:
    """Once there is room again the newest bytes are written; gap and file add up to all of it."""
    run, num_lines = full_disk_run, 400_000
    filler = small_disk / "filler"
    filler.write_bytes(b"f" * 5_000_000)
    probe = start()
    program = PRINTER.format(num_lines=num_lines)
    probe.call("launch", **run.spec("python3", "-c", program))
    probe.call("watch", **run.watch())
    eventually((run.root / "printed").exists, "the program has printed all")
    before = len(run.log())
    filler.unlink()
    # What the ring holds is more than the disk has room for even now.
    eventually(lambda: len(run.log()) > before, "the log goes on")
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    (run.root / "go").touch()
    record = probe.kind("exit")["record"]
    everything = numbered(num_lines) + b"after\r\n"
    gaps = [frame for frame in probe.frames if frame["kind"] == "gap"]
    log = run.log()
    assert {gap["reason"] for gap in gaps} == {"disk_full"}
    assert len(log) + sum(gap["size"] for gap in gaps) == len(everything)
    assert record["dropped_bytes"] == sum(gap["size"] for gap in gaps) > 0
    assert log[: gaps[0]["offset"]] == everything[: gaps[0]["offset"]]
    assert log[gaps[-1]["offset"] :] == everything[gaps[-1]["offset"] - len(log) :]
    assert probe.stream(run.run) == log


def test_a_disk_that_stays_full_still_gets_its_exit_record(
    start: Callable[..., Driver], full_disk_run: Run, small_disk: Path
) -> None:
    """Room for the record and the gap was set aside at the start."""
    run, num_lines = full_disk_run, 50_000
    (small_disk / "filler").write_bytes(b"f" * 5_000_000)
    probe = start()
    (run.root / "go").touch()
    probe.call("launch", **run.spec("python3", "-c", PRINTER.format(num_lines=num_lines)))
    probe.call("watch", **run.watch())
    record = probe.kind("exit")["record"]
    gaps = [frame for frame in probe.frames if frame["kind"] == "gap"]
    whole = len(numbered(num_lines)) + len(b"after\r\n")
    assert record["code"] == 0
    assert record["log_bytes"] == len(run.log()) < whole
    assert record["log_bytes"] + sum(gap["size"] for gap in gaps) == whole


def test_a_program_that_lets_go_of_its_terminal_lives_on(probe: Driver, a_run: Run) -> None:
    """All three descriptors sent elsewhere, as daemons do: no SIGHUP, and its own exit code."""
    program = "echo first; exec >/dev/null 2>&1 </dev/null; sleep 1.5; exit 5"
    probe.call("launch", **a_run.spec("bash", "-c", program))
    probe.call("watch", **a_run.watch())
    record = probe.kind("exit")["record"]
    assert (record["code"], record["signal"]) == (5, None)
    assert probe.stream(a_run.run) == b"first\r\n"


def test_what_is_written_to_a_terminal_opened_again_is_kept(probe: Driver, a_run: Run) -> None:
    """A program that closed its terminal and opens it by name is heard again, to its last byte."""
    program = (
        "T=$(tty); echo first; exec >/dev/null 2>&1 </dev/null; sleep 0.5; "
        "seq 1 20000 >$T; sleep 0.2; echo last >$T"
    )
    probe.call("launch", **a_run.spec("bash", "-c", program))
    probe.call("watch", **a_run.watch())
    assert probe.kind("exit")["record"]["code"] == 0
    count = b"".join(b"%d\r\n" % number for number in range(1, 20001))
    assert probe.stream(a_run.run) == b"first\r\n" + count + b"last\r\n"


def test_a_run_whose_folder_was_removed_is_gone(probe: Driver, a_run: Run) -> None:
    """Nothing is left that could say how it ended, and the watch does not wait for ever."""
    probe.call("launch", **a_run.spec("sh", "-c", "echo up; read line"))
    probe.call("watch", **a_run.watch())
    probe.until_stream(a_run.run, lambda log: b"up" in log)
    record = attempt_record(a_run)
    shutil.rmtree(a_run.attempt())
    os.kill(record["pid"], signal.SIGKILL)
    assert probe.kind("gone", watch=a_run.run)["reason"] == "relay_ended"


@pytest.mark.parametrize("plant", ["mkfifo output.log", "ln -s ../../victim output.log"])
def test_what_a_program_puts_in_its_log_s_place_holds_nothing_up(
    probe: Driver, a_run: Run, plant: str
) -> None:
    """Neither a FIFO nor a link: the relay and the probe go on, and no other file is touched."""
    victim = a_run.directory.parent / "victim"
    victim.write_bytes(b"not for the run")
    program = (
        f"echo before; sleep 0.5; cd $ORCH_RUN_DIR/1; mv output.log x; {plant}; "
        "sleep 2.5; echo after; sleep 1.5; exit 5"
    )
    probe.call("launch", **a_run.spec("sh", "-c", program))
    probe.call("watch", **a_run.watch())
    assert probe.kind("exit")["record"]["code"] == 5
    assert probe.stream(a_run.run) == b"before\r\nafter\r\n"
    assert victim.read_bytes() == b"not for the run"
    assert b'"replaced"' in (a_run.attempt() / "gaps.jsonl").read_bytes()


def test_a_relay_that_hangs_is_ended_with_its_run(
    probe: Driver, a_run: Run, tmux: Callable[..., str]
) -> None:
    """A stop ends: what does not answer is killed, and the attempt is told as gone."""
    probe.call("launch", **a_run.spec("sh", "-c", "echo before; sleep 100"))
    probe.call("watch", **a_run.watch())
    probe.until_stream(a_run.run, lambda log: b"before" in log)
    server = int(tmux("display-message", "-p", "#{pid}"))
    os.kill(server, signal.SIGSTOP)  # it wakes whatever stops in its panes
    try:
        os.kill(attempt_record(a_run)["relay_pid"], signal.SIGSTOP)
        ended = probe.call("end", **{**a_run.end(grace_s=1.0), "session": None})
        assert ended["remaining"] == []
        assert probe.kind("gone", watch=a_run.run)["reason"] == "relay_ended"
    finally:
        os.kill(server, signal.SIGCONT)
