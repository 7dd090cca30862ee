"""Which hosts this daemon drives: all of them, or those whose lease it holds in a shared database.

Owns the rhythm of the leases and the judgement that one is lost: said by the database, or because
it could not be asked for too long. What follows is for those who listen.
"""

import asyncio
import hashlib
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from orchestrator.clock import Clock
from orchestrator.core.errors import NotDriven, OrchError, StoreError, UsageError
from orchestrator.core.model import Host, Inventory
from orchestrator.store.leases import LEASE_S, Lease, Leases

TURN_S = 1.5
ALONE_S = LEASE_S - 3.0
"""Without the database's word for this long, another daemon may be about to take over."""

Change = Callable[[frozenset[str]], Awaitable[None]]

logger = logging.getLogger(__name__)


class Leasing:
    """The hosts of one daemon; `leases` is None where it shares its fleet with nobody."""

    def __init__(
        self,
        leases: Leases | None,
        clock: Clock,
        inventory: Callable[[], Inventory],
        driver: Mapping[str, Any],
    ) -> None:
        self._leases, self._clock, self._inventory = leases, clock, inventory
        self._here = f"{socket.gethostname()}{_mark()}"
        known_by = {"machine": socket.gethostname(), "here": self._here, "pid": os.getpid()}
        self._driver = {**known_by, **driver}
        self._confirmed_at = float("-inf")
        self._turning = asyncio.Lock()
        self._driven: dict[str, int] = {}
        """Host -> token, as of the last comparison."""
        self.all: tuple[Lease, ...] = ()
        """Every lease of the fleet, as of the last turn."""
        self.views: Callable[[str], list[Any]] = lambda _: []
        """Of a host that is driven here: its targets as they are shown."""
        self.standing: Callable[[], Awaitable[Iterable[str]]] = _nowhere
        """Hosts with something left to do, by key, wherever the inventory's targets lead to now."""
        self._standing: frozenset[str] = frozenset()
        """Its last good answer; none before the first look."""
        self.on_change: Change = _nothing
        """Called when hosts were gained, and with those that were lost; one change at a time."""
        self._changes: asyncio.Queue[frozenset[str]] = asyncio.Queue()

    @property
    def shared(self) -> bool:
        """Whether other daemons may drive hosts of this fleet."""
        return self._leases is not None

    def key(self, host: Host) -> str:
        """The host's name in the leases: `local` is another machine for every daemon."""
        if self._leases is None:
            return ""
        local = host.transport == "local"
        return f"{host.name}@{self._here}" if local else host.name

    def key_of(self, target: str) -> str:
        """Of a target's host; of one that the inventory does not know, its own name."""
        known = self._inventory().targets.get(target)
        return self.key(known.host) if known is not None else ("" if not self.shared else target)

    def drives(self, key: str) -> bool:
        """Whether this daemon may act on a host now."""
        return self._leases is None or (key in self._leases.held and not self._stale())

    def token(self, host: Host) -> int:
        """The token of a host's lease, 0 where nothing is shared; NotDriven if not ours."""
        key = self.key(host)
        if not self.drives(key):
            raise self.elsewhere(key)
        return self._leases.held[key] if self._leases is not None else 0

    def fence(self, host: Host) -> str:
        """What the tokens of its lease are compared under there: two hosts may be one machine."""
        key = self.key(host)
        return f"-{hashlib.sha256(key.encode()).hexdigest()[:8]}" if key else ""

    def elsewhere(self, key: str) -> NotDriven:
        """Who drives a host, and how to ask that daemon."""
        lease = self.of(key)
        if lease is None or lease.left_s < 0 or lease.owner == self.own:
            return NotDriven(
                f"No daemon drives {key} now.", target=key, remedy="Within 15 s one takes it over."
            )
        who = lease.driver
        return NotDriven(
            _said(key, who),
            target=key,
            remedy=f"Ask there, with --config {who['inventory']}; or `orch daemon stop` there, and "
            f"another one takes {key} over.",
        )

    def here(self, key: str) -> str:
        """That a host is driven by this daemon, for somebody who asked another one."""
        return _said(key, self._driver)

    def of(self, key: str) -> Lease | None:
        """The lease of a host, whoever has it."""
        return next((lease for lease in self.all if lease.host == key), None)

    def was_ours(self, key: str) -> bool:
        """Whether a daemon of this machine and this inventory drove a host last, or does now."""
        lease = self.of(key)
        if lease is None or lease.owner == self.own:
            return lease is not None  # one that was given to us has the giver's words still
        who = lease.driver
        machine = "here" if "here" in who else "machine"  # which is all that an older orch said
        return all(who.get(name) == self._driver[name] for name in (machine, "inventory"))

    async def begin(self) -> None:
        """The first turn, before anything is driven."""
        await self.turn()
        while not self._changes.empty():
            self._changes.get_nowait()

    async def run(self) -> None:
        """Keep the leases for ever; whoever hears of changes does not hold the next turn up."""
        if self._leases is None:
            return
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._tell(), name="hosts")
            tasks.create_task(self._look(), name="standing")
            while True:
                await self._clock.sleep(TURN_S)
                await self.turn()

    async def _tell(self) -> None:
        while True:
            lost = await self._changes.get()
            try:
                await self.on_change(lost)
            except OrchError as error:
                logger.warning("hosts.change_failed", extra={"why": str(error)})

    async def _look(self) -> None:
        """Beside the turns: what is held is renewed, also while this cannot be read."""
        while True:
            try:
                self._standing = frozenset(await self.standing())
            except (StoreError, ValueError) as error:
                logger.warning("hosts.unread", extra={"why": str(error)})
            await self._clock.sleep(TURN_S)

    async def close(self) -> None:
        """Let go of everything, so that others need not wait."""
        if self._leases is None:
            return
        try:
            await self._leases.release()
        except StoreError as error:
            logger.warning("leases.not_released", extra={"why": str(error)})

    async def give(self, key: str, to: str) -> None:
        """Hand a host to another daemon; NotDriven where it is not ours."""
        if self._leases is None:
            raise UsageError("This daemon shares its fleet with nobody.")
        async with self._turning:
            await self._leases.give(key, to)
            self._compare()

    async def turn(self) -> None:
        """Renew what is held, and take what is free."""
        if self._leases is None:
            return
        async with self._turning:
            await self._turn(self._leases)

    async def _turn(self, leases: Leases) -> None:
        asked_at = self._clock.monotonic()
        views = {key: self.views(key) for key in self._driven}
        try:
            self.all = await leases.turn(self._wanted(), self._driver, views)
            self._confirmed_at = asked_at
        except StoreError as error:
            logger.warning("leases.unseen", extra={"why": str(error)})
        self._compare()

    def _wanted(self) -> set[str]:
        """Where targets are, and of the other hosts those that no other inventory's daemon had."""
        inventory = self._inventory()
        known = {self.key(host) for host in inventory.hosts.values()}
        targets = {self.key(target.host) for target in inventory.targets.values()}
        return targets | {key for key in self._standing if key in known or self.was_ours(key)}

    def _compare(self) -> None:
        """Tell of what has changed since the last turn."""
        assert self._leases is not None
        driven = {key: token for key, token in self._leases.held.items() if self.drives(key)}
        # With another token it is ours anew: another daemon may have driven it in between.
        lost = frozenset(key for key, _ in self._driven.items() - driven.items())
        gained = frozenset(key for key, _ in driven.items() - self._driven.items())
        self._driven = driven
        if lost:
            logger.warning("hosts.lost", extra={"hosts": sorted(lost)})
        if gained:
            logger.info("hosts.gained", extra={"hosts": sorted(gained)})
        if lost or gained:
            self._changes.put_nowait(lost)

    def _stale(self) -> bool:
        return self._clock.monotonic() - self._confirmed_at > ALONE_S

    @property
    def own(self) -> str:
        """Who this daemon is among those of the fleet; another one after each start."""
        return self._leases.owner if self._leases is not None else ""


def _said(key: str, who: Mapping[str, Any]) -> str:
    return f"{key} is driven by the daemon {who['pid']} on {who['machine']} ({who['inventory']})."


def _mark() -> str:
    """What tells two machines of one name apart, where the system has it."""
    try:
        ident = Path("/etc/machine-id").read_bytes().strip()
    except OSError:
        return ""
    return f"-{hashlib.sha256(ident).hexdigest()[:6]}" if ident else ""


async def _nowhere() -> Iterable[str]:
    return ()


async def _nothing(_lost: frozenset[str]) -> None:
    pass
