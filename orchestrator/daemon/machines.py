"""What is seen of a host itself: the GPUs of all its containers, and its kernel log.

Owns one link and one probe for each host of containers, shared by its targets; a host that may
not be entered is tried again for ever, and its targets then show what their containers see.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from orchestrator.clock import Clock
from orchestrator.core.errors import TargetError
from orchestrator.core.events import GpusSampled
from orchestrator.core.model import Host, LinkState, Target
from orchestrator.link.link import Link
from orchestrator.observe.gpus import sampled
from orchestrator.observe.kernel import KernelLog
from orchestrator.transport.pool import Pool

GPU_INTERVAL_S = 2.0
MOST_HOLDERS = 1000
STALE_S = 10.0
"""GPUs that the host told of this long ago are older than what a container could tell now."""

logger = logging.getLogger(__name__)


class Machine:
    """One host, seen through a link of its own, or that of the target which it is itself.

    That target's own GPUs are sampled as every target's are.
    """

    def __init__(self, link: Link, clock: Clock, *, own_link: bool) -> None:
        self.link = link
        self.kernel = KernelLog(link, since=clock.now() - KERNEL_SLACK_S)
        self.gpus: GpusSampled | None = None
        self.on_gpus: list[Callable[[], None]] = []
        """Called after each round of samples."""
        self.holders: dict[int, Mapping[str, Any]] = {}
        """PID -> process on a GPU with `pci` of its card; the newest ones, the dead included."""
        self._clock = clock
        self._gpus_seen_at = float("-inf")
        self._own_link = own_link
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self) -> None:
        """Keep its link, sample its GPUs and follow its kernel log until `close`."""
        if self._own_link:
            self.link.begin()
        name = self.link.target.name
        self._tasks.append(asyncio.create_task(self.kernel.follow(), name=f"kernel {name}"))
        if self._own_link:
            self._tasks.append(asyncio.create_task(self._sample(), name=f"gpus {name}"))

    @property
    def on_host(self) -> Link | None:
        """The way to ask what no container sees; None for a target that is no container."""
        return self.link if self._own_link else None

    @property
    def sees_gpus(self) -> bool:
        """Whether what it says of GPUs is of now."""
        gpus = self.gpus
        return (
            self.link.state is not LinkState.UNREACHABLE
            and gpus is not None
            and bool(gpus.samples)
            and self._clock.monotonic() - self._gpus_seen_at < STALE_S
        )

    def take(self, event: GpusSampled) -> None:
        """A round of samples, of its own link or of the target which it is."""
        self.gpus, self._gpus_seen_at = event, self._clock.monotonic()
        for gpu in event.samples:
            for one in gpu.processes:
                self.holders.pop(one["pid"], None)
                self.holders[one["pid"]] = {**one, "pci": gpu.extra.get("pci")}
        for pid in list(self.holders)[:-MOST_HOLDERS]:
            del self.holders[pid]
        for tell in self.on_gpus:
            tell()

    async def close(self) -> None:
        """Let go of it."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._own_link:
            await self.link.close()

    async def _sample(self) -> None:
        unseen = ""
        while True:
            try:
                async for event in sampled(self.link, interval_s=GPU_INTERVAL_S, host=True):
                    unseen = ""
                    self.take(event)
            except TargetError as error:
                if str(error) != unseen:
                    unseen = str(error)
                    extra = {"target": self.link.target.name, "why": unseen}
                    logger.info("gpus.unseen", extra=extra)
            await self._clock.sleep(self._clock.jitter(GPU_INTERVAL_S))


KERNEL_SLACK_S = 3600.0
"""A daemon that was away for a while still finds what ended its runs meanwhile."""


class Machines:
    """The hosts of the targets, each entered once."""

    def __init__(
        self,
        pool: Pool,
        clock: Clock,
        key_of: Callable[[Host], str],
        token_of: Callable[[Host], int],
    ) -> None:
        self._pool, self._clock, self._key_of, self._token_of = pool, clock, key_of, token_of
        self._hosts: dict[Host, Machine] = {}

    def of(self, target: Target) -> Machine:
        """The host of a target that is a container."""
        host = target.host
        if host not in self._hosts:
            itself = Target(name=host.name, host=host)
            # A key of its own: a target may be this very host, with a probe of ours as well.
            link = Link(
                itself,
                self._pool.transport(itself),
                self._clock,
                f"{self._key_of(host)}.host",
                token=partial(self._token_of, host),
            )
            self._hosts[host] = Machine(link, self._clock, own_link=True)
            self._hosts[host].begin()
        return self._hosts[host]

    async def leave(self, host: Host) -> None:
        """Let go of one host; it may be met again."""
        machine = self._hosts.pop(host, None)
        if machine is not None:
            await machine.close()

    async def close(self) -> None:
        """Let go of all of them."""
        await asyncio.gather(*(machine.close() for machine in self._hosts.values()))
