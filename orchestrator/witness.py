"""Looks at a run from outside of its log: what the kernel, the GPUs and the clock say of it.

Owns when what is asked. What it means is core/watch's to say; what follows, core/decide's.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, Protocol

from orchestrator.core.events import Exited, GpusSampled, KernelLine, RelayGone
from orchestrator.core.findings import Finding
from orchestrator.core.model import Job, Run
from orchestrator.core.parse.kernel_log import KernelEvent
from orchestrator.core.watch.kernel import Whose, kernel_events, xid_finding
from orchestrator.observe.kernel import KernelLog

MOST_WAITING = 200
"""Lines of a storm; the oldest say enough."""


class Surroundings(Protocol):
    """The machine below a target, as the daemon sees it."""

    kernel: KernelLog
    holders: dict[int, Mapping[str, Any]]


class Witness:
    """One attempt, seen from outside."""

    def __init__(
        self,
        run: Run,
        job: Job,
        machine: Surroundings,
        gpus: Callable[[], GpusSampled | None],
    ) -> None:
        self._run, self._machine, self._gpus = run, machine, gpus
        self._target = next((one for one in job.targets if one.name == run.target), job.target)

    async def findings(self) -> AsyncGenerator[Finding, None]:
        """What goes wrong while the attempt lives; for as long as it is iterated."""
        lines: asyncio.Queue[KernelLine] = asyncio.Queue(MOST_WAITING)

        def told(line: KernelLine) -> None:
            if not lines.full():
                lines.put_nowait(line)

        self._machine.kernel.on_line.append(told)
        try:
            while True:
                found = xid_finding(await lines.get(), self._whose())
                if found is not None:
                    yield found
        finally:
            self._machine.kernel.on_line.remove(told)

    async def last_words(self, end: Exited | RelayGone) -> tuple[KernelEvent, ...]:
        """What the kernel has said of the attempt, up to its end; nothing where it went well."""
        record = end.record if isinstance(end, Exited) else None
        if record is not None and record.code == 0:
            return ()
        since = record.started_at if record is not None else self._run.started_at or 0.0
        lines = await self._machine.kernel.read_now(since)
        return kernel_events(lines, self._whose(), record)

    def _whose(self) -> Whose:
        return Whose(
            run=self._run.id,
            directory=self._run.directory,
            container=self._target.container if self._target.runtime != "none" else None,
            holders=self._machine.holders,
        )
