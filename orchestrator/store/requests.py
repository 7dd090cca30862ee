"""What one daemon of a fleet is asked to do by another, and its answer, part by part.

Owns the rows of both: a request is addressed to a host, is taken once, by whoever holds that host's
lease, and is stored before anything is done. Must not: know what is asked, or do it.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, and_, delete, func, or_, select, update

from orchestrator.store import tables
from orchestrator.store.dialects import insert
from orchestrator.store.leases import LEASE_S, database_time
from orchestrator.store.pushed import Pushed
from orchestrator.store.worker import Worker

ASKED, TAKEN, ANSWERED, BROKEN = "asked", "taken", "answered", "broken"
WANTED_S = 45.0
"""So long after its asker was last heard nobody wants an answer any more: longer than an asker
waits for a database that is away."""
KEPT_S = 3600.0
"""A request that is over, so that the same one does nothing twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One question to whoever drives a host."""

    id: str
    """Chosen by who asks: a request that is stored twice is done once."""
    host: str
    method: str
    path: str
    body: bytes
    by: str
    """The person, for the journal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a request is, as its asker sees it."""

    parts: tuple[bytes, ...]
    """What came after the part that was asked for."""
    taken: bool
    over: bool
    """No further part comes."""
    broken: bool
    """Whoever took it will not answer any more: it failed over it, or has lost the host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What the one that answers has to know of the one that asked."""

    unread: int
    wanted: bool


class Requests:
    """The requests of a fleet; all times are the database's."""

    def __init__(self, worker: Worker, pushed: Pushed, owner: str) -> None:
        self._worker = worker
        self._owner = owner
        self.pushed = pushed
        """Rings whenever a request or an answer has something new."""

    async def ask(self, request: Request) -> None:
        """Store a request; one that is there already stays as it is."""
        await self._worker.call(lambda c: _ask(c, request))

    async def take(self, hosts: Iterable[str], begun: Collection[str]) -> tuple[Request, ...]:
        """What is asked of these hosts, where their leases are ours; nobody else gets it again.

        Also what is ours already and not `begun`: taken in a call whose answer never came.
        """
        wanted, known = sorted(hosts), sorted(begun)
        return await self._worker.call(lambda c: _take(c, wanted, self._owner, known))

    async def want(self, request: str) -> None:
        """Its asker is there still, although it reads nothing just now."""
        await self._worker.call(lambda c: _want(c, request))

    async def put(self, request: str, number: int, content: bytes) -> Room:
        """A part of the answer, numbered from 0; the same one again changes nothing."""
        return await self._worker.call(lambda c: _put(c, request, number, content))

    async def room(self, request: str) -> Room:
        """Whether anybody waits for the rest."""
        return await self._worker.call(lambda c: _room(c, request))

    async def finish(self, request: str) -> None:
        """All parts are there."""
        await self._worker.call(lambda c: _end(c, request, ANSWERED))

    async def break_off(self, request: str) -> None:
        """No more parts come, and these are not all; one that is answered stays so."""
        await self._worker.call(lambda c: _end(c, request, BROKEN))

    async def read(self, request: str, have: int) -> Progress:
        """The parts after the first `have`, which are forgotten; it says that they are wanted."""
        return await self._worker.call(lambda c: _read(c, request, have))

    async def leave(self, request: str) -> None:
        """Nobody waits for it any more; one that nobody took will not be done."""
        await self._worker.call(lambda c: _leave(c, request))


def _ask(connection: Connection, request: Request) -> None:
    now = database_time(connection)
    values = {
        **{name: getattr(request, name) for name in ("id", "host", "method", "path", "body", "by")},
        "state": ASKED,
        "created_at": now,
        "wanted_until": now + WANTED_S,
    }
    asked = insert(connection, tables.requests).values(values)
    connection.execute(asked.on_conflict_do_nothing(index_elements=["id"]))
    _ring(connection, request.id)


def _take(
    connection: Connection, hosts: list[str], owner: str, begun: list[str]
) -> tuple[Request, ...]:
    table, leases, now = tables.requests, tables.leases, database_time(connection)
    # The lease's row is held until the request is ours: nobody takes the host over in between.
    held = (
        select(leases.c.host)
        .where(leases.c.host.in_(hosts), leases.c.owner == owner, leases.c.expires_at > now)
        .with_for_update(read=True)
    )
    ours = [row.host for row in connection.execute(held)]
    unheard = and_(table.c.state == TAKEN, table.c.taker == owner, table.c.id.not_in(begun))
    open_ = (
        or_(table.c.state == ASKED, unheard),
        table.c.host.in_(ours),
        table.c.wanted_until > now,
    )
    found = connection.execute(select(table).where(*open_).order_by(table.c.seq)).mappings().all()
    ids = [row["id"] for row in found]
    connection.execute(update(table).where(table.c.id.in_(ids)).values(state=TAKEN, taker=owner))
    _forget(connection, now - KEPT_S)
    return tuple(
        Request(**{name: row[name] for name in ("id", "host", "method", "path", "body", "by")})
        for row in found
    )


def _forget(connection: Connection, before: float) -> None:
    table, parts = tables.requests, tables.request_parts
    old = select(table.c.id).where(table.c.wanted_until < before)
    connection.execute(delete(parts).where(parts.c.request.in_(old)))
    connection.execute(delete(table).where(table.c.wanted_until < before))


def _put(connection: Connection, request: str, number: int, content: bytes) -> Room:
    values = {"request": request, "number": number, "content": content}
    added = insert(connection, tables.request_parts).values(values)
    connection.execute(added.on_conflict_do_nothing(index_elements=["request", "number"]))
    _ring(connection, request)
    return _room(connection, request)


def _room(connection: Connection, request: str) -> Room:
    table, parts = tables.requests, tables.request_parts
    counted = select(func.count()).select_from(parts).where(parts.c.request == request)
    unread = connection.execute(counted).scalar_one()
    until = connection.execute(select(table.c.wanted_until).where(table.c.id == request)).scalar()
    return Room(unread=unread, wanted=until is not None and until > database_time(connection))


def _end(connection: Connection, request: str, state: str) -> None:
    table = tables.requests
    open_ = (table.c.id == request, table.c.state == TAKEN)
    if connection.execute(update(table).where(*open_).values(state=state)).rowcount:
        _ring(connection, request)


def _want(connection: Connection, request: str) -> "Row[Any] | None":
    table = tables.requests
    until = database_time(connection) + WANTED_S
    wanted = update(table).where(table.c.id == request).values(wanted_until=until)
    told = wanted.returning(table.c.state, table.c.taker, table.c.host)
    return connection.execute(told).one_or_none()


def _read(connection: Connection, request: str, have: int) -> Progress:
    parts = tables.request_parts
    # The state first: where it says that all is there, what is read next is all.
    row = _want(connection, request)
    if row is None:
        return Progress(parts=(), taken=True, over=False, broken=True)
    of = parts.c.request == request
    if have:
        connection.execute(delete(parts).where(of, parts.c.number < have))
        _ring(connection, request)
    found = select(parts.c.content).where(of, parts.c.number >= have).order_by(parts.c.number)
    return Progress(
        parts=tuple(row.content for row in connection.execute(found)),
        taken=row.state != ASKED,
        over=row.state == ANSWERED,
        broken=row.state == BROKEN
        or (row.state == TAKEN and not _drives(connection, row.taker, row.host)),
    )


def _drives(connection: Connection, owner: str, host: str) -> bool:
    """Whether a daemon drives a host, or may be about to renew a lease that has just ended.

    After the database was away every lease has ended, and nobody has lost anything yet.
    """
    table = tables.leases
    lately = database_time(connection) - LEASE_S
    query = select(table.c.owner).where(table.c.host == host, table.c.expires_at > lately)
    return connection.execute(query).scalar() == owner


def _leave(connection: Connection, request: str) -> None:
    table, parts = tables.requests, tables.request_parts
    past = update(table).where(table.c.id == request)
    connection.execute(past.values(wanted_until=database_time(connection)))
    connection.execute(delete(parts).where(parts.c.request == request))
    _ring(connection, request)


def _ring(connection: Connection, request: str) -> None:
    """Heard by every daemon once the transaction is over."""
    connection.execute(select(func.pg_notify(Pushed.CHANNEL, request)))
