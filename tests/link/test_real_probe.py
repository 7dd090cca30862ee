"""The link and the probe that is shipped: a followed file across deaths and cuts, byte by byte."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.clock import SystemClock
from orchestrator.core.command import Command
from orchestrator.core.errors import Unreachable
from orchestrator.core.model import Host, LinkState, Target
from orchestrator.link.feeds import Watch
from orchestrator.link.link import Link
from orchestrator.transport.pool import Pool
from tests.lab import host as lab_host
from tests.lab.declared import declared
from tests.lab.lab import Lab
from tests.link.fakes import until

HERE = Target(name="here", host=Host(name="here", transport="local"))
DEADLINE_S = 50.0


def lab_target(lab: Lab, runtime: str) -> Target:
    """Container 200 of a lab."""
    host = declared(lab)
    return Target(name="ct200", host=host, runtime=runtime, container="200")


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    """A pool of this test."""
    made = Pool()
    yield made
    await made.close()


async def follow(watch: Watch, got: bytearray) -> None:
    """Store what a watch brings, as a daemon would, until the attempt has ended."""
    async for frame in watch:
        if frame["kind"] == "bytes":
            assert frame["offset"] == len(got)
            got += frame["data"]
            await watch.ack("log", len(got))


async def test_probe_that_is_killed_again_and_again(
    pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often the probe is killed while a log grows, each byte comes once and in order."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    attempt = tmp_path / "attempt"
    attempt.mkdir()
    link = Link(HERE, pool.transport(HERE), SystemClock(), f"test-{os.getpid()}")
    await link.start()
    watch = await link.watch("w", attempt_dir=str(attempt), log_offset=0)
    got, written = bytearray(), b""
    following = asyncio.ensure_future(follow(watch, got))
    with (attempt / "output.log").open("wb", buffering=0) as log:
        for round_number in range(4):
            for number in range(200):
                line = b"%d %d %s\n" % (round_number, number, b"x" * (number * 37 % 5000))
                written += line
                log.write(line)
                if number == 100:
                    assert link.hello is not None
                    os.kill(link.hello["pid"], signal.SIGKILL)
            pid = link.hello["pid"] if link.hello else 0
            link.poke()
            await until(
                lambda pid=pid: link.state is LinkState.CONNECTED and link.hello["pid"] != pid  # type: ignore[misc,index]
            )
    record = {"code": 0, "signal": None, "started_at": 1.0, "ended_at": 2.0}
    (attempt / "exit.json").write_text(json.dumps(record))
    await asyncio.wait_for(following, timeout=DEADLINE_S)
    assert bytes(got) == written
    await link.close()


async def test_two_links_with_one_key(
    pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The later link's probe evicts the earlier one's, which ends; other keys are left alone."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    key = f"test-{os.getpid()}"
    other = Link(HERE, pool.transport(HERE), SystemClock(), f"{key}-other")
    first = Link(HERE, pool.transport(HERE), SystemClock(), key)
    await other.start()
    await first.start()
    assert first.hello is not None
    pid = first.hello["pid"]
    second = Link(HERE, pool.transport(HERE), SystemClock(), key)
    await second.start()
    await until(lambda: not Path(f"/proc/{pid}").exists())
    assert other.state is LinkState.CONNECTED
    assert await second.call("sessions", socket=None) == {"sessions": []}
    for link in (first, second, other):
        await link.close()


@pytest.mark.lab
@pytest.mark.xdist_group("lab-link")
@pytest.mark.parametrize("runtime", ["pct", "lxc", "none"])
async def test_through_a_noisy_host(lab: Lab, pool: Pool, runtime: str) -> None:
    """The probe comes up and answers behind a .bashrc that prints, on the host and inside."""
    lab.host.set_bashrc(lab_host.BASHRC_PRINTS)
    target = lab_target(lab, runtime)
    link = Link(target, pool.transport(target), SystemClock(), "noisy")
    await link.start()
    assert link.hello is not None
    assert link.hello["hostname"] == ("pve1" if runtime == "none" else "ct200")
    async with link.bulk() as bulk:
        assert await bulk.call("sessions", socket=None) == {"sessions": []}
    await link.close()


@pytest.mark.lab
@pytest.mark.xdist_group("lab-link")
async def test_container_that_is_stopped(lab: Lab, pool: Pool) -> None:
    """A stopped container is unreachable with a question about it, and comes back by itself."""
    target = lab_target(lab, "pct")
    link = Link(target, pool.transport(target), SystemClock(), "stopped")
    await link.start()
    lab["200"].stop()
    await until(lambda: link.state is LinkState.UNREACHABLE)
    await until(lambda: "Is container 200 running?" in str(link.problem))
    lab["200"].start()
    await until(lambda: link.state is LinkState.CONNECTED, deadline_s=DEADLINE_S)
    await link.close()


@pytest.mark.lab
@pytest.mark.xdist_group("lab-link")
async def test_a_call_given_up_in_the_middle_of_its_bytes_harms_no_other(
    lab: Lab, pool: Pool
) -> None:
    """The rest of its frame follows: else the next frames would be taken for it, for ever."""
    target = lab_target(lab, "pct")
    link = Link(target, pool.transport(target), SystemClock(), "given-up")
    await link.start()
    try:
        for number in range(8):
            args: dict[str, Any] = {"path": "/srv/file", "offset": 0}
            giving = asyncio.create_task(link.call("copy_write", raw=bytes(8_000_000), **args))
            await asyncio.sleep(0.003 * number)  # some are cut before, some within, some behind
            giving.cancel()
            await asyncio.gather(giving, return_exceptions=True)
            assert "processes" in await link.call("processes", timeout_s=30.0)
        assert link.state is LinkState.CONNECTED
    finally:
        await link.close()


@pytest.fixture
async def lasting() -> AsyncIterator[Pool]:
    """A pool as the daemon has it: probes are held on their host."""
    made = Pool(lasting=True)
    yield made
    await made.close()


@pytest.mark.lab
@pytest.mark.xdist_group("lab-link")
@pytest.mark.timeout(180)
async def test_a_cut_starts_no_probe_anew(netns_lab: Lab, lasting: Pool) -> None:
    """Behind a cut of five seconds the same probes go on, and what was printed meanwhile comes."""
    targets = [
        replace(lab_target(netns_lab, "pct"), name=f"ct{name}", container=name)
        for name in ("200", "201")
    ]
    targets.append(Target(name="itself", host=targets[0].host))
    links = [Link(one, lasting.transport(one), SystemClock(), one.name) for one in targets]
    await asyncio.gather(*(link.start() for link in links))
    pids = [link.hello and link.hello["pid"] for link in links]
    log = netns_lab["200"].root / "srv/a/output.log"
    log.parent.mkdir()
    watch = await links[0].watch("w", attempt_dir="/srv/a", log_offset=0)
    got = bytearray()
    following = asyncio.ensure_future(follow(watch, got))
    netns_lab.host.cut()
    log.write_bytes(b"meanwhile\n")
    await asyncio.sleep(5.0)  # the length of the cut is what is tested
    netns_lab.host.restore()
    await until(lambda: got == b"meanwhile\n", deadline_s=DEADLINE_S)
    assert await asyncio.gather(*(link.call("sessions", socket=None) for link in links))
    assert [link.hello and link.hello["pid"] for link in links] == pids
    following.cancel()
    await asyncio.gather(*(link.close() for link in links))


@pytest.mark.lab
@pytest.mark.xdist_group("lab-link")
async def test_sshd_that_is_killed_ends_no_probe(lab: Lab, lasting: Pool) -> None:
    """While sshd is gone the link says why; what begins meanwhile is told to the same probe."""
    target = lab_target(lab, "pct")
    link = Link(target, lasting.transport(target), SystemClock(), "sshd")
    await link.start()
    pid = link.hello and link.hello["pid"]
    (lab["200"].root / "srv/b").mkdir()
    lab.host.kill_sshd()
    await until(lambda: link.state is LinkState.UNREACHABLE)
    with pytest.raises(Unreachable, match="cannot be reached"):
        await link.call("processes")
    watch = await link.watch("w", attempt_dir="/srv/b", log_offset=0)
    with pytest.raises(Unreachable):
        await link.keep("gpus", interval_s=0.0)
    lab.host.start_sshd()
    link.poke()
    (lab["200"].root / "srv/b/output.log").write_bytes(b"behind\n")
    got = bytearray()
    following = asyncio.ensure_future(follow(watch, got))
    await until(lambda: got == b"behind\n", deadline_s=DEADLINE_S)
    assert link.state is LinkState.CONNECTED
    assert (link.hello and link.hello["pid"]) == pid
    following.cancel()
    await link.close()


@pytest.mark.lab
@pytest.mark.xdist_group("lab-link")
@pytest.mark.timeout(180)
async def test_one_probe_that_is_stuck(lab: Lab, lasting: Pool) -> None:
    """A probe that stands still is given up alone: the others of its host are not started anew."""
    targets = [
        replace(lab_target(lab, "pct"), name=f"ct{name}", container=name) for name in ("200", "201")
    ]
    links = [Link(one, lasting.transport(one), SystemClock(), "stuck") for one in targets]
    await asyncio.gather(*(link.start() for link in links))
    pids = [link.hello and link.hello["pid"] for link in links]
    (stuck,) = lab["200"].pids(running=" serve ")
    os.kill(stuck, signal.SIGSTOP)
    await until(lambda: links[0].state is LinkState.UNREACHABLE, deadline_s=DEADLINE_S)
    assert links[1].state is LinkState.CONNECTED
    links[0].poke()
    await until(lambda: links[0].state is LinkState.CONNECTED, deadline_s=DEADLINE_S)
    assert (links[0].hello and links[0].hello["pid"]) != pids[0]
    assert (links[1].hello and links[1].hello["pid"]) == pids[1]
    await asyncio.gather(*(link.close() for link in links))


@pytest.mark.lab
@pytest.mark.slow
@pytest.mark.xdist_group("lab-link")
@pytest.mark.timeout(180)
async def test_cable_that_is_cut(netns_lab: Lab, pool: Pool) -> None:
    """A cut cable is found out by the link itself; afterwards the log goes on where it was."""
    target = lab_target(netns_lab, "pct")
    transport = pool.transport(target)
    link = Link(target, transport, SystemClock(), "cut")
    await link.start()
    made = await transport.run(Command(argv=("mkdir", "-p", "/srv/a")))
    assert made.exit_status == 0
    watch = await link.watch("w", attempt_dir="/srv/a", log_offset=0)
    got = bytearray()
    following = asyncio.ensure_future(follow(watch, got))
    log = netns_lab["200"].root / "srv/a/output.log"
    log.write_bytes(b"before\n")
    await until(lambda: got == b"before\n")
    netns_lab.host.cut()
    with log.open("ab") as file:
        file.write(b"meanwhile\n")
    await until(lambda: link.state is LinkState.UNREACHABLE, deadline_s=DEADLINE_S)
    netns_lab.host.restore()
    link.poke()
    await until(lambda: got == b"before\nmeanwhile\n", deadline_s=DEADLINE_S)
    record = {"code": 0, "signal": None, "started_at": 1.0, "ended_at": 2.0}
    (log.parent / "exit.json").write_text(json.dumps(record))
    await asyncio.wait_for(following, timeout=DEADLINE_S)
    await link.close()
