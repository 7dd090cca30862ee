"""Deploys in a child process that can be killed at any instant.

Run as a program it reads one JSON line for each deploy (package, workdir, cache), forks a child
that makes the deploy, prints the child's PID, and prints its wait status once it is gone.
"""

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from orchestrator.core.model import Host, Job, Target
from orchestrator.deploy.bundle import collect
from orchestrator.deploy.hashes import HashCache
from orchestrator.probe import release, spare
from orchestrator.probe.errors import OpError
from orchestrator.probe.workdir import Workdir
from tests.deploy import whole

_TARGET = Target(name="local", host=Host(name="here", transport="local"))


def deploy(order: dict[str, Any]) -> None:
    """The ops of one deploy, one after the other, with nothing of asyncio in between."""
    job = Job(
        name="dflash",
        targets=(_TARGET,),
        command="true",
        workdir=order["workdir"],
        package=order["package"],
        shared=("checkpoints",),
    )
    bundle = collect(job, cache=HashCache(Path(order["cache"])), now=time.time())
    args = {
        "workdir": job.workdir,
        "digest": bundle.digest,
        "manifest": bundle.told_whole(),
        "deploy": 1,
    }
    whole.send(bundle, args)
    workdir = Workdir(job.workdir)
    if order.get("twin") and (current := workdir.current()) is not None:
        spare.make(workdir, current)
    release.commit({**args, "provenance": {"by": "test"}}, lambda _: None)


def serve() -> None:
    """Fork for every order until the end of stdin."""
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            try:
                deploy(order)
            except OpError as exc:
                print(exc.message, file=sys.stderr)
                os._exit(1)
            os._exit(0)
        print(pid, flush=True)
        _, status = os.waitpid(pid, 0)
        print(status, flush=True)


class Victims:
    """Starts deploys in children of a warm process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls) -> "Victims":
        """A process with everything imported, ready to fork."""
        return cls(
            await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.deploy.victim",
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            )
        )  # fmt: skip

    async def deploy(self, order: dict[str, str], kill_after_s: float | None) -> bool:
        """Whether the deploy ended by itself, and well, before it was killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        pid = int(await self._process.stdout.readline())
        if kill_after_s is not None:
            await asyncio.sleep(kill_after_s)
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                pass
        return int(await self._process.stdout.readline()) == 0

    async def close(self) -> None:
        """End the warm process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()


if __name__ == "__main__":
    serve()
