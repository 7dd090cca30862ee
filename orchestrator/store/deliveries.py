"""The durable queue of alerts on their way to sinks.

A delivery is stored in the transaction that changes its incident, and stays until the sink took
it. Must not: send anything, or know what a sink is.
"""

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, func, select, true, update

from orchestrator.core.decide.decision import Outgoing
from orchestrator.core.model import Delivery, IncidentState
from orchestrator.store import tables
from orchestrator.store.dialects import insert
from orchestrator.store.rows import delivery_of, row_of
from orchestrator.store.worker import Worker

PENDING = "pending"
DELIVERED = "delivered"
DISABLED = "disabled"
OVER = "over"
"""Never sent: its incident was over before its sink had an address, or was back."""

UNSET = "the sink has no address yet"
"""Kept in `error` of what was stored while that was so."""


Mine = Callable[[], Mapping[str, int] | None]
"""The hosts whose alerts this daemon sends, and the tokens of their leases.

None: it is the only daemon, and sends all.
"""


class Deliveries:
    """The outbox's queue; the outbox sees it as `sinks.base.Queue`."""

    def __init__(self, worker: Worker, mine: Mine) -> None:
        self._worker = worker
        self._mine = mine
        self._listeners: list[Callable[[], None]] = []

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each transaction that enqueued something."""
        self._listeners.append(listener)

    def announce(self) -> None:
        """Wake the listeners."""
        for listener in self._listeners:
            listener()

    def hosts(self) -> frozenset[tuple[str, int]]:
        """Whose alerts are seen here, each with its lease's token; empty for the only daemon."""
        return frozenset((self._mine() or {}).items())

    async def pending(self) -> tuple[Delivery, ...]:
        """Everything that no sink has taken yet, in the order of enqueueing."""
        columns = tables.deliveries.c
        query = select(tables.deliveries).where(columns.state == PENDING, self._ours())
        query = query.order_by(columns.seq)
        rows = await self._worker.call(lambda c: c.execute(query).mappings().all())
        return tuple(delivery_of(row) for row in rows)

    async def heads(self, sink: str, limit: int) -> tuple[Delivery, ...]:
        """The first pending delivery of each incident to a sink, the one due first in front."""
        query = (
            _heads(sink)
            .where(self._ours())
            .order_by(tables.deliveries.c.next_at, tables.deliveries.c.seq)
        )
        rows = await self._worker.call(lambda c: c.execute(query.limit(limit)).mappings().all())
        return tuple(delivery_of(row) for row in rows)

    async def bundle(self, ids: tuple[str, ...], digest: str) -> None:
        """From now on they are one message, which is sent again under the same id."""
        table = tables.deliveries
        change = update(table).where(table.c.id.in_(ids)).values(digest=digest)
        await self._worker.call(lambda c: c.execute(change))

    async def bundled(self, digest: str) -> tuple[Delivery, ...]:
        """What is still pending of a message that was bundled."""
        columns = tables.deliveries.c
        query = select(tables.deliveries).where(columns.digest == digest, columns.state == PENDING)
        rows = await self._worker.call(
            lambda c: c.execute(query.order_by(columns.seq)).mappings().all()
        )
        return tuple(delivery_of(row) for row in rows)

    async def delivered(self, ids: tuple[str, ...], at: float) -> None:
        """The sink took them."""
        table = tables.deliveries
        change = (
            update(table)
            .where(table.c.id.in_(ids))
            .values(state=DELIVERED, delivered_at=at, error=None, attempts=table.c.attempts + 1)
        )
        await self._worker.call(lambda c: c.execute(change))

    async def failed(self, ids: tuple[str, ...], error: str, next_at: float) -> None:
        """The sink did not take them; they are due again at `next_at`."""
        table = tables.deliveries
        change = (
            update(table)
            .where(table.c.id.in_(ids))
            .values(error=error, next_at=next_at, attempts=table.c.attempts + 1)
        )
        await self._worker.call(lambda c: c.execute(change))

    async def hurry(self, sink: str, now: float) -> None:
        """What failed before is due now: its receiver is another one."""
        columns = tables.deliveries.c
        failed = and_(columns.attempts > 0, columns.next_at > now)
        change = update(tables.deliveries).where(self._waits(sink), failed).values(next_at=now)
        await self._worker.call(lambda c: c.execute(change))

    async def mark_unset(self, sink: str) -> None:
        """What is pending was stored while the sink had no address; it is known after a restart."""
        columns = tables.deliveries.c
        fresh = and_(columns.attempts == 0, columns.error.is_(None))
        change = update(tables.deliveries).where(self._waits(sink), fresh).values(error=UNSET)
        await self._worker.call(lambda c: c.execute(change))

    async def forget_over(self, sink: str) -> None:
        """Incidents that are over or acknowledged, and of which the sink never heard, stay so."""
        table, incidents = tables.deliveries, tables.incidents.c
        told = table.alias("told")
        heard = select(told.c.seq).where(
            told.c.incident == table.c.incident, told.c.sink == sink, told.c.state == DELIVERED
        )
        over = select(incidents.id).where(incidents.state != IncidentState.OPEN.value)
        change = (
            update(table)
            .where(self._waits(sink), table.c.error == UNSET)
            .where(table.c.incident.in_(over), ~heard.exists())
            .values(state=OVER)
        )
        await self._worker.call(lambda c: c.execute(change))

    def _waits(self, sink: str) -> ColumnElement[bool]:
        columns = tables.deliveries.c
        return and_(columns.sink == sink, columns.state == PENDING, self._ours())

    async def disable(self, sink: str, error: str) -> None:
        """The receiver says that it is gone (410): nothing of the sink is pending any more."""
        table = tables.deliveries
        change = (
            update(table)
            .where(table.c.sink == sink, table.c.state == PENDING, self._ours())
            .values(state=DISABLED, error=error)
        )
        await self._worker.call(lambda c: c.execute(change))

    async def revive(self, sink: str) -> None:
        """The sink is back: what nobody got meanwhile waits again, as for a first address.

        What quiet hours keep back is due at their end as before.
        """
        table = tables.deliveries
        change = (
            update(table)
            .where(table.c.sink == sink, table.c.state == DISABLED, self._ours())
            .values(state=PENDING, error=UNSET)
        )
        await self._worker.call(lambda c: c.execute(change))

    async def counts(self) -> Mapping[str, Mapping[str, int]]:
        """How many deliveries of each sink are in each state."""
        columns = tables.deliveries.c
        query = (
            select(columns.sink, columns.state, func.count())
            .where(self._ours())
            .group_by(columns.sink, columns.state)
        )
        rows = await self._worker.call(lambda c: c.execute(query).all())
        counted: dict[str, dict[str, int]] = {}
        for sink, state, number in rows:
            counted.setdefault(sink, {})[state] = number
        return counted

    async def of_incident(self, incident: str) -> tuple[Delivery, ...]:
        """Deliveries of an incident, first one first."""
        columns = tables.deliveries.c
        query = select(tables.deliveries).where(columns.incident == incident).order_by(columns.seq)
        rows = await self._worker.call(lambda c: c.execute(query).mappings().all())
        return tuple(delivery_of(row) for row in rows)

    def _ours(self) -> ColumnElement[bool]:
        mine = self._mine()
        return true() if mine is None else tables.deliveries.c.host.in_(sorted(mine))


def _heads(sink: str) -> Select[Any]:
    here = tables.deliveries
    other = here.alias("other")
    before = (
        select(other.c.seq)
        .where(
            other.c.incident == here.c.incident,
            other.c.sink == sink,
            other.c.state == PENDING,
            other.c.seq < here.c.seq,
        )
        .exists()
    )
    return select(here).where(here.c.sink == sink, here.c.state == PENDING, ~before)


def enqueue(connection: Connection, outgoing: Outgoing, host: str, now: float) -> int:
    """Store one delivery a sink, for whoever drives the host, and say how many are new.

    A `resolved` goes only to the sinks that were sent the `firing` of the same incident.
    """
    alert = outgoing.alert
    table = tables.deliveries
    sinks = outgoing.sinks
    if alert.status == "resolved":
        told = select(table.c.sink).where(
            table.c.incident == alert.incident, table.c.status == "firing"
        )
        sinks = tuple(dict.fromkeys(connection.execute(told).scalars()))
    if outgoing.cool_down_s:
        warm = _told_lately(connection, outgoing, now)
        sinks = tuple(sink for sink in sinks if sink not in warm)
    if outgoing.not_before is None:
        _release(connection, alert.incident, sinks, now)
    new = 0
    for sink in sinks:
        values = {
            "id": f"{alert.id}/{sink}",
            "incident": alert.incident,
            "sink": sink,
            "status": alert.status,
            "alert": row_of(alert),
            "state": PENDING,
            "attempts": 0,
            "next_at": max(now, outgoing.not_before or now),
            "created_at": now,
            "host": host,
        }
        added = (
            insert(connection, table).values(values).on_conflict_do_nothing(index_elements=["id"])
        )
        new += connection.execute(added.returning(table.c.seq)).first() is not None
    return new


def _release(connection: Connection, incident: str, sinks: tuple[str, ...], now: float) -> None:
    """What quiet hours keep back of an incident goes before what is not kept back."""
    columns = tables.deliveries.c
    waits = and_(columns.state == PENDING, columns.attempts == 0, columns.next_at > now)
    change = update(tables.deliveries).where(columns.incident == incident, waits)
    connection.execute(change.where(columns.sink.in_(sinks)).values(next_at=now))


def _told_lately(connection: Connection, outgoing: Outgoing, now: float) -> frozenset[str]:
    """Sinks that have an alert on the same failure of the same job from within the cool-down."""
    alert, columns = outgoing.alert, tables.deliveries.c
    query = select(columns.sink, columns.alert).where(
        columns.status == "firing",
        columns.created_at > now - outgoing.cool_down_s,
        columns.incident != alert.incident,
    )
    job = alert.labels.get("job", "")
    return frozenset(
        sink
        for sink, told in connection.execute(query)
        if (told["fingerprint"], told["labels"].get("job", "")) == (alert.fingerprint, job)
    )
