"""Incidents: what is stored of them, and how one is found.

Owns the rule that an older view never undoes an acknowledgement or a resolution, the lookup of
earlier occurrences, and what the word INCIDENT means. Must not: decide to open or resolve one.
"""

from dataclasses import replace

from sqlalchemy import Connection, insert, select, update

from orchestrator.core.errors import NoSuchRun
from orchestrator.core.model import Incident, IncidentState, number_of
from orchestrator.store import tables
from orchestrator.store.rows import incident_of, row_of
from orchestrator.store.runs import find_run, near_names
from orchestrator.store.worker import Worker

_RANK = {IncidentState.OPEN: 0, IncidentState.ACKNOWLEDGED: 1, IncidentState.RESOLVED: 2}


class Incidents:
    """What went wrong, and whether somebody still has to care."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    async def find(self, words: str) -> Incident:
        """The incident that INCIDENT means: an id, a unique prefix, or a RUN's newest."""
        return await self._worker.call(lambda c: _find(c, words))

    async def list(
        self,
        *,
        run: str | None = None,
        runs: tuple[str, ...] | None = None,
        unresolved: bool = False,
        limit: int | None = None,
    ) -> tuple[Incident, ...]:
        """Incidents of one run, of several or of all, newest first."""
        columns = tables.incidents.c
        query = select(tables.incidents).order_by(columns.seq.desc()).limit(limit)
        if runs is not None:
            query = query.where(columns.run.in_(runs))
        if run is not None:
            query = query.where(columns.run == run)
        if unresolved:
            query = query.where(columns.state != IncidentState.RESOLVED)
        rows = await self._worker.call(lambda c: c.execute(query).mappings().all())
        return tuple(incident_of(row) for row in rows)

    async def unresolved_of_job(self, job: str) -> tuple[Incident, ...]:
        """What a run of the job that finishes would resolve, oldest first."""
        columns = tables.incidents.c
        query = (
            select(tables.incidents)
            .where(columns.job == job, columns.state != IncidentState.RESOLVED)
            .order_by(columns.seq)
        )
        rows = await self._worker.call(lambda c: c.execute(query).mappings().all())
        return tuple(incident_of(row) for row in rows)

    async def earlier(
        self, *, job: str, run: str, fingerprint: str | None, family: str | None
    ) -> str | None:
        """The job's earliest run before `run` with the same fingerprint or family, or None."""
        if not fingerprint:
            return None
        columns = tables.incidents.c
        same = columns.fingerprint == fingerprint
        if family is not None:
            same = same | (columns.family == family)
        query = (select(columns.run).where(columns.job == job, columns.run != run, same)).group_by(
            columns.run
        )
        found = await self._worker.call(lambda c: c.execute(query).scalars().all())
        before = [other for other in found if number_of(other) < number_of(run)]
        return min(before, key=number_of, default=None)


def incidents_of(connection: Connection, run: str) -> tuple[Incident, ...]:
    """Incidents of a run, oldest first."""
    columns = tables.incidents.c
    query = select(tables.incidents).where(columns.run == run).order_by(columns.seq)
    return tuple(incident_of(row) for row in connection.execute(query).mappings())


def put_incident(connection: Connection, job: str, incident: Incident) -> None:
    """Insert or update an incident; its state only moves open -> acknowledged -> resolved."""
    table = tables.incidents
    query = select(table).where(table.c.id == incident.id)
    row = connection.execute(query).mappings().first()
    if row is None:
        connection.execute(insert(table).values(job=job, **row_of(incident)))
        return
    stored = incident_of(row)
    if _RANK[stored.state] > _RANK[incident.state]:
        incident = replace(incident, state=stored.state, resolved_at=stored.resolved_at)
    connection.execute(update(table).where(table.c.id == incident.id).values(row_of(incident)))


def _find(connection: Connection, words: str) -> Incident:
    columns = tables.incidents.c
    begins = select(tables.incidents).where(columns.id.startswith(words, autoescape=True))
    rows = connection.execute(begins.limit(6)).mappings().all()
    exact = [row for row in rows if row["id"] == words]
    if exact or (words and len(rows) == 1):
        return incident_of((exact or rows)[0])
    if words and rows:
        names = ", ".join(row["id"] for row in rows[:5])
        raise NoSuchRun(
            f"{words} is the beginning of several incidents: {names}.", remedy="Say more of it."
        )
    try:
        run = find_run(connection, words)
    except NoSuchRun as exc:
        near = near_names(connection, words)
        raise NoSuchRun(
            f"There is no incident and no run {words}.",
            remedy=f"{near}`orch incidents -a` lists them.",
        ) from exc
    of_run = incidents_of(connection, run.id)
    if not of_run:
        raise NoSuchRun(f"run {run.number} of {run.job} has no incident.", remedy="Nothing to do.")
    return of_run[-1]
