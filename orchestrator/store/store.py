"""The store: one SQLite file, or a PostgreSQL, and a folder of logs in the daemon's state folder.

    store = await Store.open(state_folder, clock)
    view = await store.view("dflash-3")                    run, attempts, incidents, stop reason
    applied = await store.apply(decide(view, event, ...))  everything of a decision, or nothing
    for action in applied.actions: ...do it...             see Decision for who marks it done
    for action in await store.actions.pending(): ...       at the daemon's start

Owns the transaction of a decision. Parts: `runs`, `incidents`, `deliveries` (the outbox's queue),
`actions`, `releases`, `journal`, `environments`, `silences`, `values`, `leases`, `requests`,
`logs`, `metrics`. Must not: decide or send.
"""

import asyncio
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, Engine

from orchestrator.clock import Clock, utc_text
from orchestrator.core.decide.decision import Action, Decision, RunView
from orchestrator.core.errors import NoSuchRun, StoreError
from orchestrator.store import (
    actions,
    deliveries,
    environments,
    history,
    incidents,
    leases,
    requests,
    runs,
)
from orchestrator.store.dialects import POSTGRES
from orchestrator.store.logs import LOG_FOLDER, Logs
from orchestrator.store.pushed import Pushed
from orchestrator.store.retention import Kept, Pruned, expired_logs, forget_rows
from orchestrator.store.schema import DATABASE_FILE, open_database, open_postgres
from orchestrator.store.unsettled import unsettled_hosts
from orchestrator.store.worker import Worker

METRICS_FOLDER = "metrics"


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What a stored decision leaves to do."""

    actions: tuple[Action, ...]
    """Those that are new, in order; what was decided before is not done twice."""
    enqueued: int
    """New deliveries; the outbox has been woken for them."""


class Store:
    """All that a daemon remembers."""

    def __init__(
        self, engine: Engine, clock: Clock, folder: Path, *, name: str, aside: Path | None
    ) -> None:
        self._clock = clock
        self._worker = Worker(engine)
        self.place = f"{socket.gethostname()}:{folder}"
        """Where the files of this store are."""
        self.name = name
        """Which database it is, without a secret."""
        shared = engine.dialect.name == POSTGRES
        self.leases = leases.Leases(self._worker, clock.new_id(12)) if shared else None
        """Where several daemons may share the database: who drives which host."""
        self.requests = _requests(engine, self._worker, self.leases)
        """There: what one daemon asks of another."""
        self.set_aside = aside
        """Where a damaged database was put at this start; ask the targets what they still know."""
        self.runs = runs.Runs(self._worker, clock, self._guard)
        self.incidents = incidents.Incidents(self._worker)
        self.deliveries = deliveries.Deliveries(self._worker, self._hosts)
        self.actions = actions.Actions(self._worker, clock)
        self.releases = history.Releases(self._worker, clock)
        self.journal = history.Journal(self._worker, clock)
        self.environments = environments.Environments(self._worker, clock)
        self.silences = history.Silences(self._worker, clock)
        self.values = history.Values(self._worker, self._guard)
        self.logs = Logs(folder / LOG_FOLDER)
        """Output, by run and attempt."""
        self.metrics = Logs(folder / METRICS_FOLDER)
        """Metrics files, which a run's attempts share; by run and 0."""

    @classmethod
    async def open(cls, state_folder: Path, clock: Clock, url: str | None = None) -> "Store":
        """Open or make the store; StoreError where the folder or a newer schema forbids it.

        `url` is a PostgreSQL's, for rows alone: logs are in the folder in any case.
        """
        try:
            state_folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as exc:
            raise StoreError(
                f"The state folder {state_folder} cannot be made: {exc.strerror}.",
                remedy="Make it, or set XDG_STATE_HOME to a folder that is yours.",
            ) from exc
        if url:
            engine, name = await asyncio.to_thread(open_postgres, url)
            return cls(engine, clock, state_folder, name=name, aside=None)
        stamp = utc_text(clock.now()).replace(":", "").replace(".", "")
        engine, aside = open_database(state_folder, stamp)
        name = f"sqlite://{state_folder / DATABASE_FILE}"
        store = cls(engine, clock, state_folder, name=name, aside=aside)
        # Numbers of runs that a lost database knew stay taken: their logs still exist.
        names = store.logs.runs()
        await store._worker.call(lambda c: _take_numbers(c, names))
        return store

    async def close(self) -> None:
        """Put everything on the disk and let go of it."""
        self.logs.close_all()
        self.metrics.close_all()
        await self._worker.close()

    async def prune(self, kept: Kept) -> Pruned:
        """Forget what is older or larger than is to be kept; live runs keep everything."""
        now = self._clock.now()
        ended = tuple(run for run in await self.runs.list() if run.state.ended)
        going = await asyncio.to_thread(expired_logs, self.logs, ended, kept, now)
        size = sum(self.logs.disk_bytes(run) for run in going)
        for run in going:
            await asyncio.to_thread(self.logs.forget, run)
            await asyncio.to_thread(self.metrics.forget, run)
            await self.environments.forget(run)
        rows, before = 0, now - kept.row_age_s
        while some := await self._worker.call(lambda c: forget_rows(c, before, kept.sinks)):
            rows += some
        return Pruned(logs=going, log_bytes=size, rows=rows)

    async def prunable(self, kept: Kept) -> tuple[tuple[str, ...], int]:
        """The runs whose logs `prune` would forget now, and how many bytes these are."""
        ended = tuple(run for run in await self.runs.list() if run.state.ended)
        going = await asyncio.to_thread(expired_logs, self.logs, ended, kept, self._clock.now())
        return going, sum(self.logs.disk_bytes(run) for run in going)

    async def view(self, run: str) -> RunView:
        """All that is known of a run; NoSuchRun where there is none."""
        return (await self.views((run,)))[0]

    async def views(self, runs: Iterable[str]) -> tuple[RunView, ...]:
        """All that is known of these runs, at one moment."""
        return await self._worker.call(lambda c: tuple(_view(c, run) for run in runs))

    async def unsettled(self) -> frozenset[str]:
        """Hosts, as the leases name them, on which something is left to do or to care for."""
        return await self._worker.call(unsettled_hosts)

    async def apply(self, decision: Decision) -> Applied:
        """Store a decision in one transaction: run, incidents, deliveries, actions, journal.

        Of a known run only what decisions change is written: its metrics have another writer.
        """
        now = self._clock.now()
        applied = await self._worker.call(lambda c: self._guarded(c, decision, now))
        if applied.enqueued:
            self.deliveries.announce()
        return applied

    def _guarded(self, connection: Connection, decision: Decision, now: float) -> Applied:
        self._guard(connection, decision.run.host)
        return _apply(connection, decision, now)

    def _guard(self, connection: Connection, host: str) -> None:
        if self.leases is not None:
            self.leases.guard(connection, host)

    def _hosts(self) -> Mapping[str, int] | None:
        return None if self.leases is None else self.leases.held


def _requests(
    engine: Engine, worker: Worker, shared: leases.Leases | None
) -> requests.Requests | None:
    if shared is None:
        return None
    return requests.Requests(worker, Pushed(engine), shared.owner)


def _view(connection: Connection, run_id: str) -> RunView:
    run = runs.get_run(connection, run_id)
    if run is None:
        raise NoSuchRun(f"There is no run {run_id}.", remedy="`orch ps -a` lists all runs.")
    return RunView(
        run=run,
        attempts=runs.attempts_of(connection, run_id),
        incidents=incidents.incidents_of(connection, run_id),
        stop_reason=actions.last_stop(connection, run_id, run.attempt),
    )


def _apply(connection: Connection, decision: Decision, now: float) -> Applied:
    run = decision.run
    runs.put_decided(connection, run)
    for attempt in decision.attempts:
        runs.put_attempt(connection, run.id, attempt)
    for incident in decision.incidents:
        incidents.put_incident(connection, run.job, incident)
    enqueued = sum(deliveries.enqueue(connection, one, run.host, now) for one in decision.outgoing)
    actions.settle(connection, run.id, decision.done, actions.DONE, now)
    actions.settle(connection, run.id, decision.cancel, actions.CANCELLED, now)
    new = tuple(
        action for action in decision.actions if actions.add_action(connection, action, now)
    )
    for note in decision.notes:
        history.add_note(connection, note, run.id, now)
    return Applied(actions=new, enqueued=enqueued)


def _take_numbers(connection: Connection, names: tuple[str, ...]) -> None:
    highest: dict[str, int] = {}
    for name in names:
        job, _, number = name.rpartition("-")
        if job and number.isdigit():
            highest[job] = max(highest.get(job, 0), int(number))
    for job, taken in highest.items():
        runs.take_number(connection, job, taken)
