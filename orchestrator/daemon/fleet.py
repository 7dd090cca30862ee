"""One link for each target of the inventory: its state, its GPUs, its view on the board.

It owns the links and the tasks that read them; the hosts below them are machines.py's. It must
not know of runs.
"""

import asyncio
import hashlib
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from orchestrator.api.messages import TargetView
from orchestrator.clock import Clock
from orchestrator.core.errors import NotDriven, TargetError
from orchestrator.core.events import GpusSampled
from orchestrator.core.model import Host, Inventory, LinkState, Target
from orchestrator.daemon.board import Board
from orchestrator.daemon.gpu_history import GpuHistory
from orchestrator.daemon.gpu_merge import merged
from orchestrator.daemon.machines import GPU_INTERVAL_S, Machine, Machines
from orchestrator.daemon.views import target_view
from orchestrator.link.link import Link
from orchestrator.observe.gpus import sampled
from orchestrator.transport.pool import Pool

GPU_SELDOM_S = 60.0
"""Which GPUs a container has changes rarely; who uses them its host says all the time."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Seen:
    """What is known of one target."""

    target: Target
    link: Link
    machine: Machine
    inside: GpusSampled | None = None
    """GPUs as the target itself sees them."""
    interval_s: float = GPU_INTERVAL_S
    history: GpuHistory = field(default_factory=GpuHistory)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    on_gpus: Callable[[], None] = lambda: None
    """Called when the host has told of its GPUs."""

    @property
    def gpus(self) -> GpusSampled | None:
        """The best that is known of its GPUs now."""
        if self.target.runtime == "none":
            return self.inside
        return merged(self.inside, self.machine.gpus if self.machine.sees_gpus else None)


class Fleet:
    """The targets, each with one link that is kept for as long as the inventory names it."""

    def __init__(
        self,
        pool: Pool,
        clock: Clock,
        board: Board,
        key_of: Callable[[Host], str],
        token_of: Callable[[Host], int],
    ) -> None:
        """`key_of` a host names its daemons there, `token_of` it the one that may act."""
        self._pool, self._clock, self._board, self._key_of = pool, clock, board, key_of
        self._token_of = token_of
        self._machines = Machines(pool, clock, key_of, token_of)
        self._seen: dict[str, _Seen] = {}
        self._leaving: list[asyncio.Task[None]] = []
        self.on_link: list[Callable[[str], None]] = []
        """Called with a target's name when its link changed."""

    def follow(self, inventory: Inventory) -> None:
        """Have a link to every target that a job uses; others get theirs when they are asked.

        Targets of hosts that another daemon drives are left to it.
        """
        for job in inventory.jobs.values():
            for target in job.targets:
                with suppress(NotDriven):
                    self.link(target)

    def hosts(self) -> set[Host]:
        """The hosts that targets are linked on."""
        return {seen.target.host for seen in self._seen.values()}

    async def leave(self, host: Host) -> None:
        """Another daemon drives the host from now on."""
        for name in [name for name, seen in self._seen.items() if seen.target.host == host]:
            await _leave(self._seen[name])
            del self._seen[name]
        await self._machines.leave(host)

    def link(self, target: Target) -> Link:
        """The link of a target, kept from now on; an edited target gets a new one.

        NotDriven where another daemon drives its host.
        """
        self._token_of(target.host)
        seen = self._seen.get(target.name)
        if seen is None or seen.target != target:
            if seen is not None:
                # It would fight the new one for the target: both have our key.
                self._leaving.append(asyncio.create_task(self._outlive(seen)))
            link = Link(
                target,
                self._pool.transport(target),
                self._clock,
                self._key(target),
                token=partial(self._token_of, target.host),
            )
            seen = self._seen[target.name] = self._meet(target, link)
            self._changed(target.name)
        return seen.link

    async def _outlive(self, old: _Seen) -> None:
        """End an edited target's former link, and its former host where no target is left there."""
        await _leave(old)
        host = old.target.host
        if all(one.target.host != host for one in self._seen.values()):
            await self._machines.leave(host)

    def _key(self, target: Target) -> str:
        """Two targets may be one place (another tmux socket), and must not evict each other."""
        mark = hashlib.sha256(target.name.encode()).hexdigest()[:8]
        return f"{self._key_of(target.host)}.{mark}"

    def machine(self, target: Target) -> Machine:
        """The host of a target, or the target itself where it is one."""
        self.link(target)
        return self._seen[target.name].machine

    def _meet(self, target: Target, link: Link) -> _Seen:
        itself = target.runtime == "none"
        machine = (
            Machine(link, self._clock, own_link=False) if itself else self._machines.of(target)
        )
        seen = _Seen(target, link, machine)
        link.on_state(lambda _: self._changed(target.name))
        link.begin()
        reading = [self._keep(seen)]
        if itself:
            machine.begin()
        else:
            seen.on_gpus = partial(self._sampled, seen)
            machine.on_gpus.append(seen.on_gpus)
            reading.append(self._pace(seen))
        seen.tasks += [asyncio.create_task(one, name=f"fleet {target.name}") for one in reading]
        return seen

    def named(self, name: str) -> tuple[LinkState, float | None]:
        """State of the link to a target, and when it was last heard."""
        seen = self._seen.get(name)
        return (seen.link.state, seen.link.seen_at) if seen else (LinkState.UNREACHABLE, None)

    def heard(self, views: Iterable[TargetView]) -> list[TargetView]:
        """Views of the board with when each link was heard by now, which alone is no change."""
        return [
            {**view, "seen_at": self._seen[view["name"]].link.seen_at}
            if view["name"] in self._seen
            else view
            for view in views
        ]

    def gpus(self, name: str) -> GpusSampled | None:
        """The newest that is known of a target's GPUs."""
        return self._seen[name].gpus if name in self._seen else None

    def gpu_history(self, name: str) -> list[GpusSampled]:
        """Rounds of samples of a target, oldest first."""
        return self._seen[name].history.rounds() if name in self._seen else []

    async def close(self) -> None:
        """End every link; the runs go on."""
        await asyncio.gather(*(_leave(seen) for seen in self._seen.values()))
        await asyncio.gather(*self._leaving, return_exceptions=True)
        await self._machines.close()

    async def _keep(self, seen: _Seen) -> None:
        target = seen.target
        try:
            await seen.link.start()
        except TargetError as error:
            logger.warning("target.unreachable", extra={"target": target.name, "why": str(error)})
        unseen = ""
        while True:
            # A link that never was has no state that changes: its reason is shown all the same.
            self._changed(target.name)
            try:
                async for event in sampled(seen.link, interval_s=seen.interval_s):
                    unseen, seen.inside = "", event
                    if target.runtime == "none":
                        seen.machine.take(event)
                    self._sampled(seen)
            except TargetError as error:
                if str(error) != unseen:  # said once, and not every two seconds of a night
                    unseen = str(error)
                    logger.info("gpus.unseen", extra={"target": target.name, "why": unseen})
            await self._clock.sleep(self._clock.jitter(GPU_INTERVAL_S))

    async def _pace(self, seen: _Seen) -> None:
        """Ask a container seldom while its host tells, and often while it does not."""
        while True:
            wanted_s = GPU_SELDOM_S if seen.machine.sees_gpus else GPU_INTERVAL_S
            if wanted_s != seen.interval_s:
                seen.interval_s = wanted_s
                try:
                    await seen.link.keep("gpus", interval_s=wanted_s)
                except TargetError:
                    pass  # every later probe is told so
                self._changed(seen.target.name)
            await self._clock.rest(GPU_INTERVAL_S)

    def _sampled(self, seen: _Seen) -> None:
        gpus = seen.gpus
        if gpus is not None and gpus.samples:
            seen.history.add(gpus)
        self._changed(seen.target.name)

    def _changed(self, name: str) -> None:
        seen = self._seen[name]
        gpus = seen.gpus
        problem = seen.link.problem
        view = target_view(
            seen.target,
            link=seen.link.state,
            seen_at=seen.link.seen_at,
            watched=seen.link.watched,
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
    if seen.target.runtime == "none":
        await seen.machine.close()
    else:
        seen.machine.on_gpus.remove(seen.on_gpus)
    await seen.link.close()
