"""Releases, the journal, silences and single values: the small tables.

Must not: interpret what is in them.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, insert, or_, select, update

from orchestrator.clock import Clock
from orchestrator.core.decide.decision import Note, Silence
from orchestrator.core.model import Release
from orchestrator.store import dialects, tables
from orchestrator.store.rows import plain, release_of, row_of, silence_of
from orchestrator.store.runs import Guard
from orchestrator.store.worker import Worker


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseEntry:
    """One time at which a release became the current one of a job on a target."""

    release: Release
    job: str
    target: str
    at: float
    kind: str
    """`deploy` or `rollback`."""
    why: str
    provenance: Mapping[str, Any]
    """Where the tree came from: commit, dirty files, who, from which machine."""
    looked: bool
    """Whether what the job finds after this deploy is kept."""


class Releases:
    """What was deployed, and what was rolled back, in order."""

    def __init__(self, worker: Worker, clock: Clock) -> None:
        self._worker = worker
        self._clock = clock

    async def add(
        self,
        release: Release,
        *,
        job: str,
        target: str,
        kind: str = "deploy",
        why: str = "",
        provenance: Mapping[str, Any] | None = None,
    ) -> int:
        """The release is the current one of the job on the target from now on; its number."""
        values = {
            **row_of(release),
            "job": job,
            "target": target,
            "kind": kind,
            "why": why,
            "at": self._clock.now(),
            "provenance": plain(provenance or {}),
        }
        added = insert(tables.releases).values(values).returning(tables.releases.c.seq)
        return int(await self._worker.call(lambda c: c.execute(added).scalar_one()))

    async def keep_environment(self, number: int, fingerprint: Mapping[str, Any]) -> None:
        """Keep what the job finds around it after the deploy of this number."""
        table = tables.releases
        kept = table.update().where(table.c.seq == number)
        kept = kept.values(environment=plain(fingerprint))
        await self._worker.call(lambda c: c.execute(kept))

    async def environment(
        self, job: str, target: str, digest: str, before: float
    ) -> Mapping[str, Any] | None:
        """What was found after the newest deploy of a release before a time, where it was."""
        table = tables.releases
        of = (table.c.job == job, table.c.target == target, table.c.digest == digest)
        query = (
            select(table.c.environment)
            .where(*of, table.c.kind == "deploy", table.c.at <= before)
            .order_by(table.c.seq.desc())
            .limit(1)
        )
        found: Mapping[str, Any] | None = await self._worker.call(
            lambda c: c.execute(query).scalar()
        )
        return found

    async def list(
        self, job: str, *, target: str | None = None, limit: int | None = None
    ) -> tuple[ReleaseEntry, ...]:
        """The history of a job's releases, newest first."""
        table = tables.releases
        columns = [column for column in table.c if column is not table.c.environment]  # it is large
        looked = table.c.environment.is_not(None).label("looked")
        query = select(*columns, looked).where(table.c.job == job)
        query = query.order_by(table.c.seq.desc()).limit(limit)
        if target is not None:
            query = query.where(table.c.target == target)
        rows = await self._worker.call(lambda c: c.execute(query).mappings().all())
        return tuple(
            ReleaseEntry(
                release=release_of(row),
                looked=bool(row["looked"]),
                **{key: row[key] for key in ("job", "target", "at", "kind", "why", "provenance")},
            )
            for row in rows
        )

    async def find(self, job: str, target: str, digest: str | None) -> Release | None:
        """The release with this digest, as it was deployed last; None where it never was."""
        table = tables.releases
        query = (
            select(table)
            .where(table.c.job == job, table.c.target == target, table.c.digest == digest)
            .order_by(table.c.seq.desc())
            .limit(1)
        )
        row = await self._worker.call(lambda c: c.execute(query).mappings().first())
        return None if row is None else release_of(row)

    async def current(self, job: str, target: str) -> ReleaseEntry | None:
        """The newest entry, or None where nothing was deployed."""
        found = await self.list(job, target=target, limit=1)
        return found[0] if found else None

    async def digests(self) -> dict[tuple[str, str], str]:
        """Of each job and target to which anything was deployed, the newest entry's digest."""
        table = tables.releases.c
        newest = select(func.max(table.seq)).group_by(table.job, table.target)
        query = select(table.job, table.target, table.digest).where(table.seq.in_(newest))
        rows = await self._worker.call(lambda c: c.execute(query).all())
        return {(row.job, row.target): row.digest for row in rows}


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One line of a run's journal."""

    at: float
    kind: str
    body: Mapping[str, Any]


class Journal:
    """What was decided of each run and asked for it, in its order; `orch`'s timeline reads it."""

    def __init__(self, worker: Worker, clock: Clock) -> None:
        self._worker = worker
        self._clock = clock

    async def add(self, note: Note, *, run: str) -> None:
        """Write a line of a run's journal."""
        await self._worker.call(lambda c: add_note(c, note, run, self._clock.now()))

    async def of(self, run: str, *, limit: int) -> tuple[JournalEntry, ...]:
        """The newest lines of a run, oldest first."""
        columns = tables.journal.c
        query = select(tables.journal).where(columns.run == run).order_by(columns.seq.desc())
        rows = await self._worker.call(lambda c: c.execute(query.limit(limit)).mappings().all())
        return tuple(
            JournalEntry(at=row["at"], kind=row["kind"], body=row["body"]) for row in reversed(rows)
        )


class Silences:
    """Alerts that nobody wants to hear."""

    def __init__(self, worker: Worker, clock: Clock) -> None:
        self._worker = worker
        self._clock = clock

    async def add(
        self, match: Mapping[str, str], *, until: float | None = None, why: str = ""
    ) -> Silence:
        """Keep back alerts whose labels match, until a unix time or for good."""
        silence = Silence(
            id=self._clock.new_id(),
            match=dict(match),
            until=until,
            why=why,
            created_at=self._clock.now(),
        )
        values = row_of(silence)
        await self._worker.call(lambda c: c.execute(insert(tables.silences).values(values)))
        return silence

    async def list(self) -> tuple[Silence, ...]:
        """All of them, expired ones too, oldest first."""
        query = select(tables.silences).order_by(tables.silences.c.created_at)
        rows = await self._worker.call(lambda c: c.execute(query).mappings().all())
        return tuple(silence_of(row) for row in rows)

    async def expire(self, silence: str) -> bool:
        """End a silence now; False where none of this id lasts. It is kept among those over."""
        table, now = tables.silences, self._clock.now()
        lasts = or_(table.c.until.is_(None), table.c.until > now)
        change = update(table).where(table.c.id == silence, lasts).values(until=now)
        over = change.returning(table.c.id)
        return await self._worker.call(lambda c: c.execute(over).first()) is not None


class Values:
    """Single values by key, in JSON's types."""

    def __init__(self, worker: Worker, guard: Guard) -> None:
        self._worker = worker
        self._guard = guard

    async def get(self, key: str) -> Any:
        """The value, or None."""
        query = select(tables.kv.c.value).where(tables.kv.c.key == key)
        return await self._worker.call(lambda c: c.execute(query).scalar())

    async def several(self, keys: Collection[str]) -> dict[str, Any]:
        """Those of these keys that have a value, with it."""
        table = tables.kv.c
        query = select(table.key, table.value).where(table.key.in_(keys))
        rows = await self._worker.call(lambda c: c.execute(query).all())
        return {row.key: row.value for row in rows}

    async def set(self, key: str, value: Any, *, host: str | None = None) -> None:
        """Keep a value; one of a `host` only as who drives it, else NotDriven."""
        row = {"key": key, "value": plain(value)}

        def keep(connection: Connection) -> None:
            if host is not None:
                self._guard(connection, host)
            _set(connection, row)

        await self._worker.call(keep)

    async def agree(self, key: str, value: Any) -> Any:
        """The value that is there, or this one, whoever of several daemons says it first."""
        row = {"key": key, "value": plain(value)}
        await self._worker.call(
            lambda c: c.execute(dialects.insert(c, tables.kv).values(row).on_conflict_do_nothing())
        )
        return await self.get(key)


def _set(connection: Connection, row: Mapping[str, Any]) -> None:
    change = dialects.insert(connection, tables.kv).values(row)
    connection.execute(change.on_conflict_do_update(index_elements=["key"], set_=row))


def add_note(connection: Connection, note: Note, run: str, now: float) -> None:
    """Write a line of the journal."""
    values = {"at": now, "run": run, "kind": note.kind, "body": plain(note.body)}
    connection.execute(insert(tables.journal).values(values))
