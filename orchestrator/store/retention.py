"""What is forgotten, and when: logs of ended runs, and rows that nobody will ask for again.

Runs, attempts, incidents and releases stay: they are small, and "same as run 3" needs them.
Must not: touch anything of a run that lives, or a delivery that can still be made.
"""

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Select, Table, delete, false, select

from orchestrator.core.model import Run
from orchestrator.store import actions, deliveries, tables
from orchestrator.store.logs import Logs

SOME = 2_000
"""Rows that one call deletes at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """How much of the past is kept."""

    log_bytes: int = 20 * 1024**3
    """Logs of ended runs take at most this on the disk; the oldest go first."""
    log_age_s: float = 90 * 86_400.0
    row_age_s: float = 30 * 86_400.0
    sinks: frozenset[str] | None = None
    """The inventory's; what waits for others goes at `row_age_s`. None: all that waits stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """What was forgotten."""

    logs: tuple[str, ...]
    """Ids of the runs whose logs are gone."""
    log_bytes: int
    rows: int


def expired_logs(logs: Logs, ended: tuple[Run, ...], kept: Kept, now: float) -> tuple[str, ...]:
    """The runs whose logs are to go, oldest first; `ended` are the ended runs, newest first."""
    there = set(logs.runs())
    room = kept.log_bytes
    going = []
    for run in ended:
        if run.id not in there:
            continue
        room -= logs.disk_bytes(run.id)
        too_old = run.ended_at is not None and run.ended_at < now - kept.log_age_s
        if room < 0 or too_old:
            going.append(run.id)
    return tuple(reversed(going))


def forget_rows(connection: Connection, before: float, sinks: frozenset[str] | None) -> int:
    """Delete some of what is settled and older than a unix time; how many rows, 0 once all is gone.

    Some: a statement has its time with PostgreSQL, and other calls wait for this one meanwhile.
    """
    for table, settled in _going(before, sinks):
        some = select(table.c.seq).where(*settled).order_by(table.c.seq).limit(SOME)
        gone = connection.execute(delete(table).where(table.c.seq.in_(some))).rowcount
        if gone:
            return gone
    return 0


def _going(
    before: float, sinks: frozenset[str] | None
) -> tuple[tuple[Table, tuple[ColumnElement[bool], ...]], ...]:
    journal, sent, done = tables.journal.c, tables.deliveries.c, tables.actions.c
    told = (sent.state != deliveries.PENDING, sent.incident.not_in(_unresolved()))
    over = (done.state != actions.PENDING, done.run.in_(_ended()))
    removed = sent.sink.not_in(sinks) if sinks is not None else false()
    return (
        (tables.journal, (journal.at < before,)),
        (tables.deliveries, (sent.created_at < before, *told)),
        (tables.deliveries, (sent.created_at < before, removed)),
        (tables.actions, (done.created_at < before, *over)),
    )


def _unresolved() -> Select[tuple[str]]:
    return select(tables.incidents.c.id).where(tables.incidents.c.state != "resolved")


def _ended() -> Select[tuple[str]]:
    return select(tables.runs.c.id).where(tables.runs.c.ended_at.is_not(None))
