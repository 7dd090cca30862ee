"""Runs and their attempts.

Owns the numbering of runs and what the word RUN means. Must not: decide a state.
"""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, case, func, select, update

from orchestrator.clock import Clock
from orchestrator.core.errors import NoSuchRun
from orchestrator.core.inventory.matches import SIMULATION
from orchestrator.core.model import Attempt, Run
from orchestrator.store import tables
from orchestrator.store.dialects import insert
from orchestrator.store.rows import attempt_of, plain, row_of, run_of
from orchestrator.store.worker import Worker

_DECIDED = (
    *("state", "attempt", "session", "directory", "release", "started_at", "ended_at"),
    *("exit_code", "signal", "verdict", "incident"),
)
_NEWEST_FIRST = tables.runs.c.seq.desc()
MOST_NEAR = 500
"""Newest runs among which a name that is like a wrong one is looked for."""


Guard = Callable[[Connection, str], None]
"""Raises where another daemon drives the host, and keeps it ours until the transaction ends."""


class Runs:
    """What was asked to run, newest last."""

    def __init__(self, worker: Worker, clock: Clock, guard: Guard) -> None:
        self._worker = worker
        self._clock = clock
        self._guard = guard

    async def create(self, draft: Run) -> Run:
        """Store a new run; its `number`, `id`, `directory` and `created_at` are filled in here.

        In `draft.directory`, `{id}` stands for the id, which is known only now; the draft's own
        `number`, `id` and `created_at` are ignored.
        """
        now = self._clock.now()
        return await self._worker.call(lambda c: _create(c, draft, now, self._guard))

    async def has_numbers(self, job: str) -> bool:
        """Whether a number of the job was ever taken here."""
        query = select(tables.counters.c.number).where(tables.counters.c.job == job)
        return await self._worker.call(lambda c: c.execute(query).first() is not None)

    async def take(self, job: str, number: int) -> None:
        """Let the job's next run have a number above this one."""
        await self._worker.call(lambda c: take_number(c, job, number))

    async def put(self, run: Run) -> None:
        """Store a run as it is."""
        await self._worker.call(lambda c: put_run(c, run))

    async def update(self, run: str, **values: Any) -> None:
        """Set some fields of a run (step, loss, phase, metrics, ...), as who drives its host."""
        changes = {key: plain(value) for key, value in values.items()}
        await self._worker.call(lambda c: _update(c, run, changes, self._guard))

    async def get(self, run: str) -> Run:
        """The run with this id; NoSuchRun where there is none."""
        found = await self._worker.call(lambda c: get_run(c, run))
        if found is None:
            raise NoSuchRun(f"There is no run {run}.", remedy="`orch ps -a` lists all runs.")
        return found

    async def find(self, words: str) -> Run:
        """The run that RUN means: an id, a unique prefix, a job's newest, `@N` or `-N` newest."""
        return await self._worker.call(lambda c: find_run(c, words))

    async def list(
        self, *, job: str | None = None, live: bool = False, limit: int | None = None
    ) -> tuple[Run, ...]:
        """Runs, newest first: of one job, or only those that have not ended."""
        query = select(tables.runs).order_by(_NEWEST_FIRST).limit(limit)
        if job is not None:
            query = query.where(tables.runs.c.job == job)
        if live:
            query = query.where(tables.runs.c.ended_at.is_(None))
        rows = await self._worker.call(lambda c: c.execute(query).mappings().all())
        return tuple(run_of(row) for row in rows)

    async def attempts(self, run: str) -> tuple[Attempt, ...]:
        """Attempts of a run, first one first."""
        return await self._worker.call(lambda c: attempts_of(c, run))

    async def rebuild(self, run: Run, attempts: tuple[Attempt, ...]) -> None:
        """Store a run with its attempts, as its target knew them after a database was lost."""
        await self._worker.call(lambda c: _rebuild(c, run, attempts))


def get_run(connection: Connection, run: str) -> Run | None:
    """The run with this id."""
    row = connection.execute(select(tables.runs).where(tables.runs.c.id == run)).mappings().first()
    return None if row is None else run_of(row)


def _update(connection: Connection, run: str, changes: Mapping[str, Any], guard: Guard) -> None:
    table = tables.runs
    host = connection.execute(select(table.c.host).where(table.c.id == run)).scalar_one_or_none()
    if host is None:
        return  # nothing to keep it in: a database that was made anew while its daemon lived
    guard(connection, host)
    connection.execute(update(table).where(table.c.id == run).values(changes))


def put_run(connection: Connection, run: Run) -> None:
    """Insert or overwrite a run, and keep its number taken."""
    values = row_of(run)
    connection.execute(
        insert(connection, tables.runs)
        .values(values)
        .on_conflict_do_update(index_elements=["id"], set_=values)
    )
    take_number(connection, run.job, run.number)


def put_decided(connection: Connection, run: Run) -> None:
    """Write what decisions change of a run, and nothing that was measured meanwhile."""
    values = {name: plain(getattr(run, name)) for name in _DECIDED}
    connection.execute(update(tables.runs).where(tables.runs.c.id == run.id).values(values))


def take_number(connection: Connection, job: str, number: int) -> None:
    """Let the job's next run have a number above this one."""
    table = tables.counters
    larger = case((table.c.number > number, table.c.number), else_=number)
    connection.execute(
        insert(connection, table)
        .values(job=job, number=number)
        .on_conflict_do_update(index_elements=["job"], set_={"number": larger})
    )


def attempts_of(connection: Connection, run: str) -> tuple[Attempt, ...]:
    """Attempts of a run, first one first."""
    table = tables.attempts
    query = select(table).where(table.c.run == run).order_by(table.c.number)
    return tuple(attempt_of(row) for row in connection.execute(query).mappings())


def put_attempt(connection: Connection, run: str, attempt: Attempt) -> None:
    """Insert or overwrite an attempt."""
    values = {"run": run, **row_of(attempt)}
    connection.execute(
        insert(connection, tables.attempts)
        .values(values)
        .on_conflict_do_update(index_elements=["run", "number"], set_=values)
    )


def find_run(connection: Connection, words: str) -> Run:
    """The run that RUN means; NoSuchRun says what was near."""
    if words[:1] in ("@", "-") and words[1:].isascii() and words[1:].isdigit():
        return _nth_newest(connection, words)
    exact = get_run(connection, words)
    if exact is not None:
        return exact
    columns = tables.runs.c
    of_job = select(tables.runs).where(columns.job == words).order_by(_NEWEST_FIRST).limit(1)
    row = connection.execute(of_job).mappings().first()
    if row is not None:
        return run_of(row)
    begins = select(tables.runs).where(columns.id.startswith(words, autoescape=True))
    rows = connection.execute(begins.order_by(_NEWEST_FIRST).limit(6)).mappings().all()
    if words and len(rows) == 1:
        return run_of(rows[0])
    if words and rows:
        names = ", ".join(row["id"] for row in rows[:5])
        more = " and others" if len(rows) > 5 else ""
        raise NoSuchRun(
            f"{words} is the beginning of several runs: {names}{more}.", remedy="Say more of it."
        )
    numbered = _numbered(connection, words)
    if len(numbered) == 1:
        return numbered[0]
    if numbered:
        names = ", ".join(run.id for run in numbered)
        raise NoSuchRun(f"Several jobs have a run {words}: {names}.", remedy="Say which.")
    near = near_names(connection, words)
    raise NoSuchRun(f"There is no run {words}.", remedy=f"{near}`orch ps -a` lists all runs.")


def _numbered(connection: Connection, words: str) -> list[Run]:
    """The runs that a bare number means, as in `same as run 3`: one of each job at most."""
    if not (words.isascii() and words.isdigit() and len(words) < 10):
        return []
    query = select(tables.runs).where(tables.runs.c.number == int(words)).order_by(_NEWEST_FIRST)
    return [run_of(row) for row in connection.execute(query).mappings()]


def near_names(connection: Connection, words: str) -> str:
    """`Did you mean dflash-3? `, from jobs and the newest runs; empty where none is like it."""
    query = select(tables.runs.c.job, tables.runs.c.id).order_by(_NEWEST_FIRST).limit(MOST_NEAR)
    names = [name for row in connection.execute(query) for name in row]
    close = difflib.get_close_matches(words, dict.fromkeys(names), n=3)
    return f"Did you mean {' or '.join(close)}? " if close else ""


def _nth_newest(connection: Connection, words: str) -> Run:
    nth = int(words[1:])
    # A rehearsal of the alarm is nobody's newest run; it is meant by its name.
    of_jobs = tables.runs.c.job != SIMULATION
    counted = select(func.count()).select_from(tables.runs).where(of_jobs)
    known = connection.execute(counted).scalar_one()
    if not 1 <= nth <= known:
        there = "there are none yet" if not known else f"there are {known}"
        raise NoSuchRun(f"There is no run {words}: {there}.", remedy="@1 is the newest run.")
    newest = select(tables.runs).where(of_jobs).order_by(_NEWEST_FIRST)
    query = newest.limit(1).offset(nth - 1)
    return run_of(connection.execute(query).mappings().one())


def _create(connection: Connection, draft: Run, now: float, guard: Guard) -> Run:
    guard(connection, draft.host)
    number = _next_number(connection, draft.job)
    run_id = f"{draft.job}-{number}"
    run = replace(
        draft,
        number=number,
        id=run_id,
        created_at=now,
        directory=draft.directory.replace("{id}", run_id),
    )
    connection.execute(insert(connection, tables.runs).values(row_of(run)))
    return run


def _next_number(connection: Connection, job: str) -> int:
    """One more than any before, also where another daemon asks at the same moment."""
    table = tables.counters
    taken = (
        insert(connection, table)
        .values(job=job, number=1)
        .on_conflict_do_update(index_elements=["job"], set_={"number": table.c.number + 1})
        .returning(table.c.number)
    )
    return int(connection.execute(taken).scalar_one())


def _rebuild(connection: Connection, run: Run, attempts: tuple[Attempt, ...]) -> None:
    put_run(connection, run)
    for attempt in attempts:
        put_attempt(connection, run.id, attempt)
