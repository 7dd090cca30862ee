"""Deploys through a real sshd and pct into real containers, whole or not at all."""

import asyncio
import contextlib
import dataclasses
import os
import random
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from orchestrator.clock import SystemClock
from orchestrator.core.errors import DeployError, OrchError, Unreachable
from orchestrator.core.model import Job, Release, Target
from orchestrator.deploy import plan as plans
from orchestrator.deploy import release
from orchestrator.deploy.bundle import collect
from orchestrator.deploy.hashes import HashCache
from orchestrator.link import Link
from orchestrator.transport.pool import Pool
from tests.lab.declared import declared
from tests.lab.lab import Lab

from .whole import leftovers, tree_of

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("lab-link")]

WORKDIR = "/srv/orch/dflash"


@dataclasses.dataclass
class Way:
    """A link into a container, and the job whose target it is."""

    lab: Lab
    number: str
    link: Link
    job: Job
    cache: Path

    @property
    def workdir(self) -> Path:
        """The working folder as this machine sees it."""
        return Path(f"{self.lab[self.number].root}{WORKDIR}")

    def seen(self, done: Release) -> Path:
        """A release's package as this machine sees it."""
        return Path(f"{self.lab[self.number].root}{done.path}")

    async def deploy(self) -> Release:
        """Plan and deploy what is there now, as the daemon does."""
        bundle = collect(self.job, cache=HashCache(self.cache), now=time.time())
        plan = await plans.plan(self.link, self.job, bundle)
        if not plan.large:
            return await release.deploy(self.link, self.job, bundle, plan, lambda _: None)
        async with self.link.bulk() as caller:
            return await release.deploy(caller, self.job, bundle, plan, lambda _: None)

    async def connected(self) -> None:
        """Once the link is back after its probe died."""
        async with asyncio.timeout(30):
            while True:
                with contextlib.suppress(Unreachable):
                    await self.link.call("processes")
                    return
                await asyncio.sleep(0.05)

    async def deploy_in_the_end(self) -> Release:
        """Deploy, however often the link has to come back for it."""
        async with asyncio.timeout(30):
            while True:
                with contextlib.suppress(Unreachable):
                    return await self.deploy()
                await asyncio.sleep(0.05)


@pytest.fixture(params=["200", "201"])
async def way(
    request: pytest.FixtureRequest, lab: Lab, job: Job, tmp_path: Path
) -> AsyncIterator[Way]:
    """Into the privileged and into the unprivileged container."""
    number: str = request.param
    host = declared(lab)
    target = Target(name=f"ct{number}", host=host, runtime="pct", container=number)
    job = dataclasses.replace(job, targets=(target,), workdir=WORKDIR)
    pool = Pool()
    link = Link(target, pool.transport(target), SystemClock(), f"t{time.monotonic_ns()}")
    await link.start()
    yield Way(lab, number, link, job, tmp_path / "hashes.json")
    await link.close()
    await pool.close()


async def test_a_release_arrives_whole_and_the_next_sends_the_change_alone(
    way: Way, package: Path
) -> None:
    """Odd names and modes through ssh and pct; a large first deploy on a connection of its own."""
    root = os.fsencode(package)
    for name in (b"a b", b"it's", b"two\nlines", b"\xff\xfe", b"$HOME"):
        with open(root + b"/" + name, "wb") as file:
            file.write(name)
    (package / "run.sh").write_text("#!/bin/sh\n")
    (package / "run.sh").chmod(0o755)
    (package / "weights.bin").write_bytes(os.urandom(10_000_000))
    first = await way.deploy()
    assert tree_of(way.seen(first)) == tree_of(package)
    (package / "model.py").write_text("LAYERS = 4\n")
    bundle = collect(way.job, cache=HashCache(way.cache), now=time.time())
    plan = await plans.plan(way.link, way.job, bundle)
    assert (plan.paths, plan.current) == (("trainer/model.py",), first.digest)
    second = await release.deploy(way.link, way.job, bundle, plan, lambda _: None)
    assert tree_of(way.seen(second)) == tree_of(package)
    assert (await release.rollback(way.link, way.job))["current"] == first.digest


async def test_a_probe_that_is_killed_while_it_deploys_harms_nothing(
    way: Way, package: Path
) -> None:
    """At random instants: `current` is the old release or the new one, and the next one goes on."""
    first = await way.deploy()
    whole = {first.digest: tree_of(package)}
    for number in range(5):
        (package / "weights.bin").write_bytes(random.Random(number).randbytes(1_500_000))
        (package / "model.py").write_text(f"LAYERS = {number}\n")
        bundle = collect(way.job, cache=HashCache(way.cache), now=time.time())
        whole[bundle.digest] = tree_of(package)
        await way.connected()
        deploying = asyncio.create_task(way.deploy())
        await asyncio.sleep(random.uniform(0, 0.2))
        assert way.link.hello is not None
        for pid in way.lab[way.number].pids(running=str(way.link.hello["probe"])):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(OrchError):
            await deploying
        digest = os.readlink(way.workdir / "current").removeprefix("releases/")
        assert tree_of(way.workdir / "releases" / digest / "trainer") == whole[digest]
    (package / "model.py").write_text("LAYERS = 99\n")
    done = await way.deploy_in_the_end()
    assert tree_of(way.seen(done)) == tree_of(package)
    assert leftovers(way.workdir) == []


async def test_a_full_disk_in_a_container_is_named(way: Way, package: Path) -> None:
    """The error says where and what to do, and the old release stays."""
    way.lab[way.number].mount_small_disk(WORKDIR, 3_000_000)
    first = await way.deploy()
    (package / "weights.bin").write_bytes(os.urandom(6_000_000))
    with pytest.raises(DeployError, match="No space left"):
        await way.deploy()
    assert os.readlink(way.workdir / "current") == f"releases/{first.digest}"
    assert leftovers(way.workdir) == []
