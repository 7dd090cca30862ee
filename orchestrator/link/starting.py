"""Starts the probes of one link: each newer than the one before, or the shell where no Python is.

Owns the number that says which of a key's probes lives. Keeps none of them alive (keeper.py).
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from orchestrator.clock import Clock
from orchestrator.core.model import Target
from orchestrator.link.boot import Booted, NoPython, Patience, boot
from orchestrator.link.package import ProbePackage, probe_package
from orchestrator.link.probe_channel import ProbeChannel
from orchestrator.link.shell_probe import start_shell
from orchestrator.link.subscribed import Life
from orchestrator.probe.frames import BULK, TOKEN_SHIFT, Frame
from orchestrator.transport.base import Transport

logger = logging.getLogger(__name__)

Token = Callable[[], int]


class Starter:
    """`token` is asked before each start: the fencing token of the daemon's lease."""

    def __init__(
        self,
        target: Target,
        transport: Transport,
        clock: Clock,
        key: str,
        *,
        package: ProbePackage | None,
        token: Token,
    ) -> None:
        self._target, self._transport, self._clock, self._key = target, transport, clock, key
        self._package, self._token = package, token
        self._generation = 0
        self._bulk_slots: set[int] = set()

    async def start(self, on_frame: Callable[[Frame], None], patience: Patience) -> Life:
        """What watches the target from now on; TargetError where nothing can."""
        try:
            booted = await self._boot(self._key, patience, bulk=False)
        except NoPython as exc:
            logger.info("link.plain_shell", extra={"target": self._target.name, "why": str(exc)})
            return await start_shell(self._target, self._transport, self._clock, on_frame)
        way = self._transport.way
        return ProbeChannel(self._target.name, booted, self._clock, on_frame, way)

    @asynccontextmanager
    async def bulk(self) -> AsyncIterator[ProbeChannel]:
        """A probe beside it, over a connection of its own, that lives as long as this."""
        slot = next(number for number in range(1000) if number not in self._bulk_slots)
        self._bulk_slots.add(slot)
        try:
            booted = await self._boot(f"{self._key}{BULK}{slot}", Patience(), bulk=True)
            probe = ProbeChannel(self._target.name, booted, self._clock, lambda _: None)
            living = asyncio.create_task(probe.live(), name=f"bulk {self._target.name}")
            try:
                yield probe
            finally:
                living.cancel()
                await asyncio.gather(living, return_exceptions=True)
        finally:
            self._bulk_slots.discard(slot)

    async def _boot(self, key: str, patience: Patience, *, bulk: bool) -> Booted:
        least = (self._token() << TOKEN_SHIFT) + int(self._clock.now() * 1000)
        self._generation = max(self._generation + 1, least)
        return await boot(
            self._target,
            self._transport,
            self._package or probe_package(),
            generation=self._generation,
            key=key,
            bulk=bulk,
            patience=patience,
        )
