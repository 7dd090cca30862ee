"""Each way to bring a package into the lab's container, as one go that can be timed."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from orchestrator.core.model import Host, Job
from orchestrator.deploy import plan as plans
from orchestrator.deploy import release
from orchestrator.deploy.ahead import Ahead
from orchestrator.deploy.bundle import Bundle, collect
from orchestrator.deploy.hashes import HashCache
from orchestrator.link import Link
from tests.lab.lab import Lab

CONTAINER = "200"
ORCH = (str(Path(sys.executable).with_name("orch")),)
Way = Callable[[], Awaitable[None]]


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
        loop = asyncio.get_running_loop()
        async with Ahead() as ahead, asyncio.TaskGroup() as group:

            def open_ahead(num_bytes: int) -> None:
                if num_bytes > plans.LARGE_BYTES:
                    loop.call_soon_threadsafe(ahead.open, self._link)

            if self._base is not None:
                group.create_task(plans.look_ahead(self._link, self._job))
            bundle = await asyncio.to_thread(
                collect, self._job, cache=self._cache, now=time.time(), on_unread=open_ahead
            )
            plan = await plans.plan(self._link, self._job, bundle, self._base)
            self._base = bundle
            caller: plans.Caller = await ahead.bulk(self._link) if plan.large else self._link
            await release.deploy(caller, self._job, bundle, plan, lambda _: None)

    async def command(self) -> None:
        """The whole of `orch deploy`."""
        await run([*ORCH, "--config", str(self.inventory), "deploy"], env=self.env)

    async def end(self) -> None:
        """Stop the daemon of the command."""
        await run([*ORCH, "--config", str(self.inventory), "daemon", "stop"], env=self.env)

    def daemon(self) -> int:
        """PID of the command's daemon."""
        argv = [*ORCH, "--config", str(self.inventory), "daemon", "status", "--json"]
        said = subprocess.run(argv, env=self.env, check=True, capture_output=True).stdout
        return int(json.loads(said)["pid"])

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


async def run(argv: list[str], *, env: Mapping[str, str] | None = None) -> None:
    """Run a program to its end."""
    child = await asyncio.create_subprocess_exec(*argv, env=env, stdout=subprocess.DEVNULL)
    if await child.wait() != 0:
        raise SystemExit(f"failed: {' '.join(argv)}")
