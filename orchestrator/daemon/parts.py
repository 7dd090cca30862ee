"""The daemon's parts, built once and in order, and taken down in the reverse order."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.api.location import Location
from orchestrator.clock import Clock
from orchestrator.core.model import Inventory
from orchestrator.daemon.board import Board
from orchestrator.daemon.crew import Crew
from orchestrator.daemon.duties import Duties
from orchestrator.daemon.environment import Environment, wanted_names
from orchestrator.daemon.fleet import Fleet
from orchestrator.daemon.installed import InstalledCode
from orchestrator.daemon.inventory_file import InventoryFile
from orchestrator.daemon.simulated import with_simulation
from orchestrator.deploy.bundle import Bundle
from orchestrator.deploy.hashes import HashCache
from orchestrator.sinks.make import Rack
from orchestrator.sinks.outbox import Outbox
from orchestrator.store.store import Store
from orchestrator.transport.pool import Pool

EVIDENCE_FOLDER = "evidence"
HASH_CACHE = "hashes.json"


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
    outbox: Outbox
    rack: Rack
    crew: Crew
    code: InstalledCode
    started_at: float
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    packages: Packages
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
            store = await Store.open(location.state_folder, clock)
            stack.push_async_callback(store.close)
            board = Board(clock)
            pool = Pool()
            stack.push_async_callback(pool.close)
            fleet = Fleet(pool, clock, board, key=await _probe_key(store, clock))
            stack.push_async_callback(fleet.close)
            environment = Environment(os.environ, _env_file())
            rack = Rack(clock)
            sinks = rack.sinks(file.current().alerts.sinks)
            outbox = Outbox(store.deliveries, sinks, clock, environment.lookup)
            sending = asyncio.create_task(outbox.run(), name="outbox")
            stack.push_async_callback(_cancel, sending)
            crew = Crew(
                store=store,
                board=board,
                fleet=fleet,
                clock=clock,
                environment=environment,
                inventory=lambda: with_simulation(file.current()),
                evidence=location.state_folder / EVIDENCE_FOLDER,
            )
            stack.push_async_callback(crew.close)
            fleet.follow(file.current())
            duties = Duties(
                clock=clock,
                file=file,
                store=store,
                outbox=outbox,
                rack=rack,
                crew=crew,
                environment=environment,
                evidence=location.state_folder / EVIDENCE_FOLDER,
            )
            stack.push_async_callback(_cancel, asyncio.create_task(duties.run(), name="duties"))
            yield cls(
                location=location,
                file=file,
                clock=clock,
                store=store,
                board=board,
                fleet=fleet,
                environment=environment,
                outbox=outbox,
                rack=rack,
                crew=crew,
                code=InstalledCode(Path(__file__).parents[1], clock),
                packages=Packages.of(location.state_folder),
                started_at=clock.now(),
            )


async def _probe_key(store: Store, clock: Clock) -> str:
    """Ours on every target: a daemon on another machine may have an inventory of the same path."""
    key = await store.values.get("probe_key")
    if key is None:
        key = clock.new_id(16)
        await store.values.set("probe_key", key)
    return str(key)


def _env_file() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "orch" / "env"


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
