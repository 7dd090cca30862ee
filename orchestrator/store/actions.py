"""Actions that were decided: stored before they are done, marked once they are.

Must not: do any of them.
"""

from dataclasses import dataclass

from sqlalchemy import Connection, select, update

from orchestrator.clock import Clock
from orchestrator.core.decide.decision import Action, ActionKind
from orchestrator.store import tables
from orchestrator.store.dialects import insert
from orchestrator.store.rows import action_of, row_of
from orchestrator.store.worker import Worker

PENDING = "pending"
DONE = "done"
CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """An action as it stands in the store."""

    action: Action
    state: str
    created_at: float
    done_at: float | None
    error: str | None
    """Why it was given up."""


class Actions:
    """What is still to be done, also after a daemon was killed."""

    def __init__(self, worker: Worker, clock: Clock) -> None:
        self._worker = worker
        self._clock = clock

    async def pending(self, run: str | None = None) -> tuple[Action, ...]:
        """Actions not done yet, of one run or of all, in the order of their decisions."""
        columns = tables.actions.c
        query = select(tables.actions).where(columns.state == PENDING).order_by(columns.seq)
        if run is not None:
            query = query.where(columns.run == run)
        rows = await self._worker.call(lambda c: c.execute(query).mappings().all())
        return tuple(action_of(row) for row in rows)

    async def of(self, run: str) -> tuple[Recorded, ...]:
        """All that was ever to be done for a run, in the order of the decisions."""
        columns = tables.actions.c
        query = select(tables.actions).where(columns.run == run).order_by(columns.seq)
        rows = await self._worker.call(lambda c: c.execute(query).mappings().all())
        return tuple(
            Recorded(
                action=action_of(row),
                **{name: row[name] for name in ("state", "created_at", "done_at", "error")},
            )
            for row in rows
        )

    async def is_pending(self, action: Action) -> bool:
        """Whether it still is to be done; a stop may have cancelled it meanwhile."""
        query = select(tables.actions.c.state).where(tables.actions.c.key == action.key)
        return await self._worker.call(lambda c: c.execute(query).scalar()) == PENDING

    async def done(self, action: Action, error: str | None = None) -> None:
        """It was done, or tried and given up with `error`; it is not done again."""
        table = tables.actions
        change = (
            update(table)
            .where(table.c.key == action.key, table.c.state == PENDING)
            .values(state=DONE, done_at=self._clock.now(), error=error)
        )
        await self._worker.call(lambda c: c.execute(change))


def add_action(connection: Connection, action: Action, now: float) -> bool:
    """Store an action; False where it was stored before, pending or done."""
    table = tables.actions
    values = {
        **row_of(action),
        "kind": str(action.kind),
        "key": action.key,
        "state": PENDING,
        "created_at": now,
    }
    added = insert(connection, table).values(values).on_conflict_do_nothing(index_elements=["key"])
    return connection.execute(added.returning(table.c.seq)).first() is not None


def settle(
    connection: Connection, run: str, kinds: frozenset[ActionKind], state: str, now: float
) -> None:
    """Pending actions of these kinds are done, or are not to be done any more."""
    table = tables.actions
    connection.execute(
        update(table)
        .where(table.c.run == run, table.c.state == PENDING, table.c.kind.in_(sorted(kinds)))
        .values(state=state, done_at=now)
    )


def last_stop(connection: Connection, run: str, attempt: int) -> str | None:
    """Reason of the newest stop that was decided for an attempt."""
    columns = tables.actions.c
    query = (
        select(columns.reason)
        .where(columns.run == run, columns.attempt == attempt, columns.kind == ActionKind.STOP)
        .order_by(columns.seq.desc())
        .limit(1)
    )
    return connection.execute(query).scalar()
