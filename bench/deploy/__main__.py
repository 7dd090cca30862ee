"""Side by side in one run: orch, rsync with a fresh connection, rsync over ControlMaster, tar.

    python -m bench.deploy [REPEATS]

Needs the lab (root). `orch deploy` is the whole command with a daemon that runs already; `orch` is
the daemon's part over the link that it keeps: walk, plan, send, verify, switch; a first deploy has
a connection of its own, as in the daemon.
Prints one line for each case with the median in seconds of every way.
"""

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from orchestrator.clock import SystemClock
from orchestrator.core.model import Host, Job, Target
from orchestrator.deploy import plan as plans
from orchestrator.deploy import release
from orchestrator.deploy.bundle import Bundle, collect
from orchestrator.deploy.hashes import HashCache
from orchestrator.link import Link
from orchestrator.transport.pool import Pool
from tests.lab.lab import Lab

CONTAINER = "200"
ORCH = (sys.executable, "-m", "orchestrator")
SIZES = {"small": 600_000, "many": 20_000_000, "first": 200_000_000}
Way = Callable[[], Awaitable[None]]


def write_package(folder: Path, *, files: int, total_bytes: int) -> None:
    """Files of one size, half of each compressible, in folders of fifty."""
    size = total_bytes // files
    for number in range(files):
        path = folder / f"part{number // 50}" / f"m{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(size // 2) + b"x = 1\n" * (size // 12))


class Ways:
    """Each way to bring a package into the container."""

    def __init__(self, lab: Lab, link: Link, package: Path, scratch: Path) -> None:
        self._lab = lab
        self._link = link
        self._package = package
        self._scratch = scratch
        self._cache = HashCache(scratch / f"{package.name}.json")
        self._base: Bundle | None = None
        state, runtime = scratch / f"state-{package.name}", scratch / "run"
        runtime.mkdir(mode=0o700, exist_ok=True)
        places = {"XDG_STATE_HOME": str(state), "XDG_RUNTIME_DIR": str(runtime)}
        self.env = os.environ | places
        self.inventory = self._write_inventory(link.target.host)
        self._job = Job(
            name="bench",
            targets=(link.target,),
            command="true",
            workdir=f"/srv/orch/{package.name}",
            package=str(package),
        )

    async def orch(self) -> None:
        """The daemon's part of `orch deploy`."""
        bundle = await asyncio.to_thread(collect, self._job, cache=self._cache, now=time.time())
        plan = await plans.plan(self._link, self._job, bundle, self._base)
        self._base = bundle
        if not plan.large:
            await release.deploy(self._link, self._job, bundle, plan, lambda _: None)
            return
        async with self._link.bulk() as caller:
            await release.deploy(caller, self._job, bundle, plan, lambda _: None)

    async def command(self) -> None:
        """The whole of `orch deploy`."""
        await run([*ORCH, "--config", str(self.inventory), "deploy"], env=self.env)

    async def end(self) -> None:
        """Stop the daemon of the command."""
        await run([*ORCH, "--config", str(self.inventory), "daemon", "stop"], env=self.env)

    def _write_inventory(self, host: Host) -> Path:
        path = self._scratch / f"{self._package.name}.yaml"
        path.write_text(
            f"""
version: 1
hosts:
  pve1: {{hostname: {host.hostname}, port: {host.port}, user: root,
         identity_file: {host.identity_file}, known_hosts: {host.known_hosts}}}
targets:
  ct200: {{host: pve1, runtime: pct, container: {CONTAINER}}}
jobs:
  bench: {{target: ct200, package: {self._package}, command: "true",
          workdir: /srv/orch/command-{self._package.name}}}
"""
        )
        return path

    def rsync(self, *, master: bool) -> Way:
        """rsync through `ssh pct exec`, with a connection of its own or over a kept one."""
        shell = self._scratch / f"shell-{master}"
        kept = ["-o", "ControlMaster=auto", "-o", f"ControlPath={self._scratch}/cm"]
        ssh = self._lab.host.ssh_argv()
        words = [*ssh[:-1], *(kept if master else []), "-o", "ControlPersist=60", ssh[-1]]
        line = f'#!/bin/sh\nshift\nexec {" ".join(words)} pct exec {CONTAINER} -- "$@"\n'
        shell.write_text(line)
        shell.chmod(0o755)
        argv = ["rsync", "-a", "--delete", "-e", str(shell), f"{self._package}/"]
        return lambda: run([*argv, f"c:/srv/rsync/{self._package.name}-{master}/"])

    async def tar(self) -> None:
        """A plain stream of everything."""
        ssh = " ".join(self._lab.host.ssh_argv())
        into = f"pct exec {CONTAINER} -- tar -x -C /srv/tar"
        await run(["sh", "-c", f"tar -c -C {self._package} . | {ssh} '{into}'"])


async def run(argv: list[str], *, env: dict[str, str] | None = None) -> None:
    """Run a program to its end."""
    child = await asyncio.create_subprocess_exec(*argv, env=env, stdout=subprocess.DEVNULL)
    if await child.wait() != 0:
        raise SystemExit(f"failed: {' '.join(argv)}")


async def timed(way: Way) -> float:
    """Seconds of one go."""
    begun = time.perf_counter()
    await way()
    return time.perf_counter() - begun


async def case(lab: Lab, link: Link, scratch: Path, name: str, *, files: int, repeats: int) -> None:
    """A first deploy and one-line changes of one package, every way in turn."""
    package = scratch / name
    write_package(package, files=files, total_bytes=SIZES[name])
    ways = Ways(lab, link, package, scratch)
    all_ways: dict[str, Way] = {
        "orch deploy": ways.command,
        "orch": ways.orch,
        "rsync fresh": ways.rsync(master=False),
        "rsync ControlMaster": ways.rsync(master=True),
        "tar": ways.tar,
    }
    await run([*ORCH, "--config", str(ways.inventory), "daemon", "start"], env=ways.env)
    try:
        await compare(name, package, all_ways, files=files, repeats=repeats)
    finally:
        await ways.end()


async def compare(
    name: str, package: Path, all_ways: dict[str, Way], *, files: int, repeats: int
) -> None:
    """A first deploy and one-line changes, every way in turn."""
    first = {label: await timed(way) for label, way in all_ways.items()}
    report(f"{name}: first deploy of {files} files, {SIZES[name] / 1e6:g} MB", first)
    if name == "first":
        return
    found: dict[str, list[float]] = {label: [] for label in all_ways}
    for number in range(repeats):
        for label, way in all_ways.items():
            with open(package / "part0" / "m7.py", "a") as file:
                file.write(f"y = {number}  # {label}\n")
            found[label].append(await timed(way))
    report(
        f"{name}: one-line change in {files} files",
        {label: statistics.median(times) for label, times in found.items()},
    )


def report(what: str, seconds: dict[str, float]) -> None:
    """One line."""
    shown = "  ".join(f"{label} {value:.3f}" for label, value in seconds.items())
    print(f"{what}:  {shown}", flush=True)


async def main(repeats: int) -> None:
    """All cases in one lab."""
    with Lab.start(containers=(CONTAINER,)) as lab, tempfile.TemporaryDirectory() as folder:
        host = Host(
            name="pve1",
            hostname=lab.host.address,
            port=lab.host.port,
            user="root",
            identity_file=str(lab.host.identity_file),
            known_hosts=str(lab.host.known_hosts),
        )
        target = Target(name="ct200", host=host, runtime="pct", container=CONTAINER)
        lab[CONTAINER].run(["mkdir", "-p", "/srv/rsync", "/srv/tar"])
        pool = Pool()
        link = Link(target, pool.transport(target), SystemClock(), "bench")
        await link.start()
        print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
        scratch = Path(folder)
        await case(lab, link, scratch, "small", files=40, repeats=repeats)
        await case(lab, link, scratch, "many", files=5000, repeats=repeats)
        await case(lab, link, scratch, "first", files=400, repeats=repeats)
        await link.close()
        await pool.close()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 7))
