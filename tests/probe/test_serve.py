"""The probe's own life: the lock, the silence, the end of its stdin, and calls side by side."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.probe.calls import OP_MODULES, op_of
from orchestrator.probe.fence import Fence
from orchestrator.probe.frames import SILENCE_LIMIT_S, encode
from orchestrator.probe.serve import NO_DRIVER_TIMES, Probe, silence_of
from tests.probe.driver import Driver, Run, eventually

pytestmark = pytest.mark.tmux


def test_it_ends_with_its_stdin(start: Callable[..., Driver]) -> None:
    """A daemon that is gone leaves no probe behind."""
    driver = start()
    driver.kind("hello")
    assert driver.close() == 0


def test_it_ends_with_its_stdin_also_while_a_call_runs(
    start: Callable[..., Driver], a_run: Run
) -> None:
    """A thread that waits for something must not keep it alive."""
    driver = start()
    driver.call("launch", **a_run.spec("sh", "-c", "trap '' TERM; echo ready; sleep 1000"))
    driver.call("watch", **a_run.watch())
    driver.until_stream(a_run.run, lambda log: b"ready" in log)
    driver.post("end", **a_run.end(grace_s=600.0))
    driver.kind("progress")
    assert driver.close() == 0


def test_a_newer_generation_evicts_the_older(start: Callable[..., Driver]) -> None:
    """Two daemons never write through two probes; the newer link wins."""
    old = start(generation=1)
    old.kind("hello")
    new = start(generation=2)
    assert old.popen.wait(30) == -15
    new.send({"kind": "ping", "n": 1})
    assert new.kind("pong")["n"] == 1


def test_an_older_generation_does_not_evict_the_newer(start: Callable[..., Driver]) -> None:
    """It says why on stderr and ends with 1."""
    new = start(generation=9)
    new.send({"kind": "ping", "n": 1})
    new.kind("pong")
    old = start(generation=3)
    assert old.popen.wait(30) == 1
    assert old.popen.stderr is not None
    assert b"generation 9" in old.popen.stderr.read()
    assert new.popen.poll() is None


def test_a_stopped_probe_is_evicted_all_the_same(start: Callable[..., Driver]) -> None:
    """SIGTERM does nothing to a stopped program; after two seconds it is killed."""
    old = start(generation=1)
    old.send({"kind": "ping", "n": 1})
    old.kind("pong")
    os.kill(old.popen.pid, 19)
    new = start(generation=2)
    new.send({"kind": "ping", "n": 1})
    new.kind("pong")
    assert old.popen.wait(30) in {-9, -15}


def test_probes_of_different_keys_live_side_by_side(
    start: Callable[..., Driver], folder: Path
) -> None:
    """Two daemons with the same target do not evict each other."""
    one, two = start(), start(key=f"{folder.name}-other")
    for driver in (one, two):
        driver.send({"kind": "ping", "n": 1})
        driver.kind("pong")
    assert one.popen.poll() is None


def test_a_key_that_is_no_file_name_is_refused(start: Callable[..., Driver]) -> None:
    """It names a file in a folder of the user's, and nothing else."""
    driver = start(key="../../etc/cron.d/x")
    assert driver.popen.wait(30) == 1


def test_silence_ends_it() -> None:
    """A cut link leaves the far ends of pipes open: without frames it ends by itself."""
    in_read, in_write = os.pipe()
    out_read, out_write = os.pipe()
    probe = Probe(1, in_read, out_write, fence=Fence("key", 1), silence_s=0.5)
    thread = threading.Thread(target=probe.serve, daemon=True)
    begun = time.monotonic()
    thread.start()
    while time.monotonic() - begun < 1.5:
        os.write(in_write, encode({"kind": "ping", "n": 1}))
        time.sleep(0.05)
    assert thread.is_alive()
    thread.join(30)
    assert not thread.is_alive()
    for fd in (in_read, in_write, out_read, out_write):
        os.close(fd)


@pytest.mark.parametrize(("key", "seconds"), [("k", SILENCE_LIMIT_S), ("k.bulk0", 30.0)])
def test_a_transfer_has_a_shorter_silence(key: str, seconds: float) -> None:
    """Nothing holds it over a cut, and the next deploy waits for what it has begun."""
    assert silence_of(key) == seconds


def test_calls_are_answered_while_a_long_one_runs(probe: Driver, a_run: Run) -> None:
    """`end` with a long grace holds up neither a ping nor another call."""
    probe.call("launch", **a_run.spec("sh", "-c", "trap '' TERM; echo ready; sleep 1000"))
    probe.call("watch", **a_run.watch())
    probe.until_stream(a_run.run, lambda log: b"ready" in log)
    long = probe.post("end", **a_run.end(grace_s=600.0))
    probe.kind("progress", id=long)
    assert probe.call("sessions", socket=None)["sessions"]
    assert not any(f["kind"] == "result" and f["id"] == long for f in probe.frames)


def test_what_an_op_starts_can_neither_read_nor_write_frames(probe: Driver) -> None:
    """The probe's own descriptors 0 and 1 are not those of the link."""
    links = [os.readlink(f"/proc/{probe.popen.pid}/fd/{fd}") for fd in (0, 1, 2)]
    assert links[0] == "/dev/null"
    assert links[1] == links[2]
    assert probe.popen.stdout is not None
    frames = os.readlink(f"/proc/self/fd/{probe.popen.stdout.fileno()}")
    assert links[1] != frames


def test_a_watch_of_an_attempt_that_is_not_there_is_refused(probe: Driver, a_run: Run) -> None:
    """A removed folder is an error of the call."""
    error = probe.result("watch", **a_run.watch(number=77))["error"]
    assert "There is no attempt in" in error["message"]


def test_an_unwatched_attempt_sends_nothing_more(probe: Driver, a_run: Run) -> None:
    """After `unwatch` no frame of that watch comes; the run goes on."""
    program = "while :; do echo tick; sleep 0.02; done"
    probe.call("launch", **a_run.spec("sh", "-c", program))
    probe.call("watch", **a_run.watch())
    probe.until_stream(a_run.run, len)
    probe.call("unwatch", watch=a_run.run)
    before = len(probe.stream(a_run.run))
    size = len(a_run.log())
    eventually(lambda: len(a_run.log()) > size + 20, "the run goes on")
    probe.send({"kind": "ping", "n": 2})
    probe.kind("pong", n=2)
    assert len(probe.stream(a_run.run)) == before


@pytest.mark.parametrize("op", sorted(OP_MODULES))
def test_every_op_has_its_function(op: str) -> None:
    """The table of ops names modules that are there and know them."""
    assert callable(op_of(op))


def test_one_sample_in_between_does_not_stop_the_stream_of_them(probe: Driver) -> None:
    """Evidence and `doctor` ask once; what was asked for every so often still comes."""
    probe.call("gpus", interval_s=0.05)
    probe.kind("gpus")
    probe.call("gpus")
    seen = len(probe.frames)
    eventually(lambda: any(one["kind"] == "gpus" for one in probe.frames[seen:]), "samples go on")


def test_where_there_is_no_driver_gpus_are_looked_for_seldom(probe: Driver) -> None:
    """After a first answer the next one comes after many times what was asked for."""
    if probe.call("gpus", interval_s=0.1)["source"] is not None:
        pytest.skip("there is a driver here")

    def told() -> list[float]:
        return [one["t"] for one in probe.frames if one["kind"] == "gpus"]

    eventually(lambda: len(told()) > 1, "samples go on")
    assert told()[1] - told()[0] > 0.1 * NO_DRIVER_TIMES / 3
