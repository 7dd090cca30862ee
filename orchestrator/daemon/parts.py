"""The daemon's parts, built once and in order, and taken down in the reverse order."""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from orchestrator.api.location import Location
from orchestrator.clock import Clock
from orchestrator.core.model import Inventory, Target
from orchestrator.daemon import logs
from orchestrator.daemon.board import Board
from orchestrator.daemon.coming_back import ComingBack
from orchestrator.daemon.covering import Cover
from orchestrator.daemon.crew import Crew
from orchestrator.daemon.deploy_looks import DeployLooks
from orchestrator.daemon.duties import Duties
from orchestrator.daemon.environment import Environment, wanted_names
from orchestrator.daemon.fetching import Fetching
from orchestrator.daemon.fleet import Fleet
from orchestrator.daemon.footing import Footing
from orchestrator.daemon.installed import InstalledCode
from orchestrator.daemon.inventory_file import InventoryFile
from orchestrator.daemon.lasting import lasting
from orchestrator.daemon.leasing import Leasing
from orchestrator.daemon.neighbours import Neighbours
from orchestrator.daemon.passing import Passing
from orchestrator.daemon.rebuilding import Rebuilding
from orchestrator.daemon.simulated import with_simulation
from orchestrator.deploy.bundle import Bundle
from orchestrator.deploy.hashes import HashCache
from orchestrator.sinks.make import Rack
from orchestrator.sinks.outbox import Outbox
from orchestrator.store.schema import DATABASE_FILE
from orchestrator.store.store import Store
from orchestrator.transport.pool import Pool

logger = logging.getLogger(__name__)

EVIDENCE_FOLDER = "evidence"
HASH_CACHE = "hashes.json"
STORE_URL = "ORCH_STORE"
"""Names a PostgreSQL by its URL, which may hold a password: looked up as secrets are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packages:
    """What is known of packages from earlier deploys."""

    hashes: HashCache
    deployed: dict[tuple[str, str], Bundle] = field(default_factory=dict)
    """What went to a target's working folder last, in this daemon's life."""

    @classmethod
    def of(cls, state_folder: Path) -> "Packages":
        """As an earlier daemon left it."""
        return cls(hashes=HashCache(state_folder / HASH_CACHE))


@dataclass(kw_only=True)
class Parts:
    """What the daemon is made of."""

    location: Location
    file: InventoryFile
    clock: Clock
    store: Store
    board: Board
    fleet: Fleet
    environment: Environment
    cover: Cover
    outbox: Outbox
    rack: Rack
    crew: Crew
    leasing: Leasing
    passing: Passing
    fetching: Fetching
    code: InstalledCode
    started_at: float
    ending: asyncio.Event
    footing: Footing
    back: ComingBack
    packages: Packages
    looks: DeployLooks
    busy: set[str] = field(default_factory=set)
    """Jobs with a deploy or a launch under way."""

    @property
    def inventory(self) -> Inventory:
        """The newest good inventory."""
        return self.file.current()

    def needs(self) -> list[str]:
        """Names that the inventory wants and nobody gave a value for."""
        return self.environment.missing(wanted_names(self.inventory))

    @classmethod
    @asynccontextmanager
    async def open(
        cls, location: Location, file: InventoryFile, clock: Clock
    ) -> AsyncGenerator["Parts", None]:
        """Build everything; at the end take it down again, leaving the runs alone."""
        async with AsyncExitStack() as stack:
            environment = Environment(os.environ, _env_file(), clock.monotonic)
            cover = Cover(environment, file.current, STORE_URL)
            logs.cover_with(cover.text)
            await environment.learn((STORE_URL, *wanted_names(file.current())))
            store = await Store.open(location.state_folder, clock, environment.lookup(STORE_URL))
            stack.push_async_callback(store.close)
            leasing = _leasing(store, clock, file, location)
            await leasing.begin()
            stack.push_async_callback(leasing.close)
            board = Board(clock)
            pool = Pool(lasting=True)
            stack.push_async_callback(pool.close)
            key = await store.values.agree("probe_key", clock.new_id(16))
            fleet = Fleet(pool, clock, board, lambda host: key + leasing.fence(host), leasing.token)
            stack.push_async_callback(fleet.close)
            looks = DeployLooks(store.releases)
            stack.push_async_callback(looks.close)
            rack = Rack(clock)
            sinks = rack.sinks(file.current().alerts.sinks)
            outbox = Outbox(store.deliveries, sinks, clock, environment.lookup, cover.text)
            _keep(stack, lasting("outbox", outbox.run, clock), "outbox")
            crew = Crew(
                store=store,
                board=board,
                fleet=fleet,
                clock=clock,
                environment=environment,
                inventory=lambda: with_simulation(file.current()),
                drives=leasing.drives,
                evidence=location.state_folder / EVIDENCE_FOLDER,
            )
            stack.push_async_callback(crew.close)
            leasing.standing = partial(_standing, store, leasing, crew.targets)
            fleet.follow(file.current())
            passing = Passing(store.requests, leasing, clock, location.socket)
            back = ComingBack(file, store)
            fetching = Fetching(
                store=store,
                fleet=fleet,
                leasing=leasing,
                file=file,
                environment=environment,
                clock=clock,
            )
            ending = asyncio.Event()
            footing = Footing(_files(location), clock, ending)
            _keep(stack, footing.run(), "footing")
            parts = cls(
                location=location,
                file=file,
                clock=clock,
                store=store,
                board=board,
                fleet=fleet,
                environment=environment,
                cover=cover,
                outbox=outbox,
                rack=rack,
                crew=crew,
                leasing=leasing,
                passing=passing,
                fetching=fetching,
                code=InstalledCode(Path(__file__).parents[1], clock),
                packages=Packages.of(location.state_folder),
                looks=looks,
                started_at=clock.now(),
                ending=ending,
                footing=footing,
                back=back,
            )
            parts._attend(stack)
            yield parts

    def _attend(self, stack: AsyncExitStack) -> None:
        """Begin what is done all the while: duties, rebuilding, leases and what others ask for."""
        duties = Duties(
            clock=self.clock,
            file=self.file,
            store=self.store,
            outbox=self.outbox,
            rack=self.rack,
            crew=self.crew,
            environment=self.environment,
            evidence=self.location.state_folder / EVIDENCE_FOLDER,
            followed=self.file.current().digest,
        )
        neighbours = Neighbours(
            clock=self.clock,
            board=self.board,
            fleet=self.fleet,
            crew=self.crew,
            leasing=self.leasing,
            file=self.file,
            deliver=self.outbox.poke,
        )
        rebuilding = Rebuilding(
            clock=self.clock,
            file=self.file,
            store=self.store,
            fleet=self.fleet,
            crew=self.crew,
            back=self.back,
        )
        _keep(stack, rebuilding.run(), "rebuilding")
        for name, run in (
            ("duties", duties.run),
            ("neighbours", neighbours.run),
            ("leases", self.leasing.run),
            ("requests", self.passing.run),
        ):
            _keep(stack, lasting(name, run, self.clock), name)


def _leasing(store: Store, clock: Clock, file: InventoryFile, location: Location) -> Leasing:
    where = {"inventory": str(location.inventory)}
    return Leasing(store.leases, clock, file.current, where)


async def _standing(
    store: Store, leasing: Leasing, watched: Callable[[], list[Target]]
) -> frozenset[str]:
    """Where something is left to do, and where runs are `watched` until all is done for them."""
    return await store.unsettled() | {leasing.key(target.host) for target in watched()}


def _files(location: Location) -> list[Path]:
    """What must stay where it is; a database elsewhere has no file here."""
    return [location.lock, location.state_folder / DATABASE_FILE]


def _env_file() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "orch" / "env"


def _keep(stack: AsyncExitStack, duty: Coroutine[Any, Any, None], name: str) -> None:
    """Do something all the while that the parts are there."""
    task = asyncio.create_task(duty, name=name)
    task.add_done_callback(_say_failure)
    stack.push_async_callback(_cancel, task)


def _say_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.critical("duty.failed", extra={"duty": task.get_name()}, exc_info=error)


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
