"""One link for each target of the inventory: its state, its GPUs, its view on the board.

It owns the links and the tasks that read them. It must not know of runs.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from orchestrator.clock import Clock
from orchestrator.core.errors import TargetError
from orchestrator.core.events import GpusSampled
from orchestrator.core.model import Inventory, LinkState, Target
from orchestrator.daemon.board import Board
from orchestrator.daemon.views import target_view
from orchestrator.link.link import Link
from orchestrator.observe.gpus import sampled
from orchestrator.transport.pool import Pool

GPU_INTERVAL_S = 2.0
GPU_HISTORY = 1800

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Seen:
    """What is known of one target."""

    target: Target
    link: Link
    gpus: GpusSampled | None = None
    history: deque[GpusSampled] = field(default_factory=lambda: deque(maxlen=GPU_HISTORY))
    tasks: list[asyncio.Task[None]] = field(default_factory=list)


class Fleet:
    """The targets, each with one link that is kept for as long as the inventory names it."""

    def __init__(self, pool: Pool, clock: Clock, board: Board, key: str) -> None:
        self._pool, self._clock, self._board, self._key = pool, clock, board, key
        self._seen: dict[str, _Seen] = {}
        self._leaving: list[asyncio.Task[None]] = []
        self.on_link: list[Callable[[str], None]] = []
        """Called with a target's name when its link changed."""

    def follow(self, inventory: Inventory) -> None:
        """Have a link to every target that a job uses; others get theirs when they are asked."""
        for job in inventory.jobs.values():
            for target in job.targets:
                self.link(target)

    def link(self, target: Target) -> Link:
        """The link of a target, kept from now on; an edited target gets a new one."""
        seen = self._seen.get(target.name)
        if seen is None or seen.target != target:
            if seen is not None:
                # It would fight the new one for the target: both have our key.
                self._leaving.append(asyncio.create_task(_leave(seen)))
            link = Link(target, self._pool.transport(target), self._clock, self._key)
            seen = self._seen[target.name] = _Seen(target, link)
            link.on_state(lambda _: self._changed(target.name))
            link.begin()
            seen.tasks.append(asyncio.create_task(self._keep(seen), name=f"fleet {target.name}"))
            self._changed(target.name)
        return seen.link

    def named(self, name: str) -> tuple[LinkState, float | None]:
        """State of the link to a target, and when it was last heard."""
        seen = self._seen.get(name)
        return (seen.link.state, seen.link.seen_at) if seen else (LinkState.UNREACHABLE, None)

    def gpu_history(self, name: str) -> list[GpusSampled]:
        """Rounds of samples of a target, oldest first."""
        return list(self._seen[name].history) if name in self._seen else []

    async def close(self) -> None:
        """End every link; the runs go on."""
        await asyncio.gather(*(_leave(seen) for seen in self._seen.values()))
        await asyncio.gather(*self._leaving, return_exceptions=True)

    async def _keep(self, seen: _Seen) -> None:
        target = seen.target
        try:
            await seen.link.start()
        except TargetError as error:
            logger.warning("target.unreachable", extra={"target": target.name, "why": str(error)})
        while True:
            try:
                async for event in sampled(seen.link, interval_s=GPU_INTERVAL_S):
                    if isinstance(event, GpusSampled):
                        seen.gpus = event
                        if event.samples:
                            seen.history.append(event)
                        self._changed(target.name)
            except TargetError as error:
                logger.info("gpus.unseen", extra={"target": target.name, "why": str(error)})
            await self._clock.sleep(self._clock.jitter(GPU_INTERVAL_S))

    def _changed(self, name: str) -> None:
        seen = self._seen[name]
        gpus = seen.gpus
        problem = seen.link.problem
        view = target_view(
            seen.target,
            link=seen.link.state,
            seen_at=seen.link.seen_at,
            error=str(problem) if problem else (gpus.error if gpus else None),
            gpus=gpus.samples if gpus else (),
            gpu_source=(gpus.source or None) if gpus else None,
            gpus_at=gpus.at if gpus else None,
        )
        self._board.put("targets", name, view)
        for tell in self.on_link:
            tell(name)


async def _leave(seen: _Seen) -> None:
    for task in seen.tasks:
        task.cancel()
    await asyncio.gather(*seen.tasks, return_exceptions=True)
    await seen.link.close()
