"""Each way to bring a package into the lab's container, as one go that can be timed."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from orchestrator.api.client import Client
from tests.lab.lab import Lab

CONTAINER = "200"
ORCH = (str(Path(sys.executable).with_name("orch")),)
Way = Callable[[], Awaitable[None]]


class Ways:
    """Each way to bring a package into the container; `fresh` gives each an empty place there."""

    def __init__(self, lab: Lab, package: Path, scratch: Path, *, places: int, orch: str) -> None:
        self._lab = lab
        self._program = orch
        self._package = package
        self._scratch = scratch
        self._place = 0
        runtime = scratch / "run"
        runtime.mkdir(mode=0o700, exist_ok=True)
        state = scratch / f"state-{package.name}"
        self.env = os.environ | {"XDG_STATE_HOME": str(state), "XDG_RUNTIME_DIR": str(runtime)}
        self._inventory = self._write_inventory(places)
        self._daemon: dict[str, object] = {}

    async def __aenter__(self) -> "Ways":
        await self._orch("daemon", "start")
        argv = [self._program, "--config", str(self._inventory), "daemon", "status", "--json"]
        self._daemon = json.loads(subprocess.check_output(argv, env=self.env))
        self.fresh()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._orch("daemon", "stop")

    @property
    def daemon(self) -> int:
        """PID of the daemon."""
        return int(str(self._daemon["pid"]))

    def fresh(self) -> None:
        """Every way's next go finds nothing in the container.

        What is there stays: beside what was just removed ext4 makes files ten times as slowly.
        """
        self._place += 1
        self._lab[CONTAINER].run(["mkdir", "-p", self._for_rsync, self._for_tar])

    @property
    def _for_rsync(self) -> str:
        return f"/srv/rsync-{self._package.name}-{self._place}"

    @property
    def _for_tar(self) -> str:
        return f"/srv/tar-{self._package.name}-{self._place}"

    async def orch(self) -> None:
        """The daemon's part of `orch deploy`: from its request to `done`."""
        client = Client(Path(str(self._daemon["socket"])))
        body = {"jobs": [f"part-{self._place}"], "dry_run": False}

        def ask() -> None:
            for message in client.stream("POST", "/v1/deploy", body):
                if message["kind"] == "done":
                    return

        await asyncio.to_thread(ask)

    async def command(self) -> None:
        """The whole of `orch deploy`."""
        await self._orch("deploy", f"whole-{self._place}")

    async def _orch(self, *words: str) -> None:
        await run([self._program, "--config", str(self._inventory), *words], env=self.env)

    def _write_inventory(self, places: int) -> Path:
        path = self._scratch / f"{self._package.name}.yaml"
        jobs = "".join(
            f"  {way}-{number}: {{target: ct{CONTAINER}, package: {self._package}, "
            f'command: "true", workdir: /srv/{way}-{self._package.name}-{number}}}\n'
            for number in range(1, places + 1)
            for way in ("part", "whole")
        )
        path.write_text(f"{self._lab.inventory_yaml()}jobs:\n{jobs}")
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
        return lambda: run([*argv, f"c:{self._for_rsync}/{master}/"])

    async def tar(self) -> None:
        """A plain stream of everything."""
        ssh = " ".join(self._lab.host.ssh_argv())
        into = f"pct exec {CONTAINER} -- tar -x -C {self._for_tar}"
        await run(["sh", "-c", f"tar -c -C {self._package} . | {ssh} '{into}'"])


async def run(argv: list[str], *, env: Mapping[str, str] | None = None) -> None:
    """Run a program to its end."""
    child = await asyncio.create_subprocess_exec(*argv, env=env, stdout=subprocess.DEVNULL)
    if await child.wait() != 0:
        raise SystemExit(f"failed: {' '.join(argv)}")
