"""Who drives which host, where several daemons share one PostgreSQL: a lease for each host.

Owns the rule: a lease lasts `LEASE_S` by the database's clock; whoever takes it over gets a token
larger than any before, which the probes check. Must not: know what driving is.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Float, cast, func, or_, select, text, update
from sqlalchemy.exc import DBAPIError

from orchestrator.core.errors import NotDriven
from orchestrator.store import tables
from orchestrator.store.dialects import insert
from orchestrator.store.rows import plain
from orchestrator.store.worker import Worker

LEASE_S = 10.0
ADDED_WITHIN_MS = 300
"""So long the renewal of what is held waits for the rows of hosts that are new."""
_LOCK_NOT_AVAILABLE = "55P03"
"""PostgreSQL, appendix A, where `lock_timeout` has passed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """One host and the daemon that drives it."""

    host: str
    owner: str
    token: int
    left_s: float
    """Until it ends unless it is renewed; below 0 where it has ended."""
    driver: Mapping[str, Any]
    """How to reach the daemon: machine, pid, socket."""
    targets: tuple[Mapping[str, Any], ...]
    """The host's targets as that daemon shows them."""


class Leases:
    """The leases of one daemon, and what it sees of the others'."""

    def __init__(self, worker: Worker, owner: str) -> None:
        self._worker = worker
        self.owner = owner
        self.held: dict[str, int] = {}
        """Host -> token, as this daemon believes; the database decides."""

    async def turn(
        self,
        wanted: Iterable[str],
        driver: Mapping[str, Any],
        targets: Mapping[str, list[Any]],
    ) -> tuple[Lease, ...]:
        """Renew what is held, take what is free of `wanted`; all leases there are now."""
        asked = sorted(set(wanted))
        held, leases = await self._worker.call(lambda c: self._turn(c, asked, driver, targets))
        # Only once it is stored: what was rolled back may be another daemon's by now.
        self.held = held
        return leases

    async def release(self) -> None:
        """Let go of every lease at once, so that nobody has to wait for its end."""
        table, held = tables.leases, sorted(self.held)
        self.held = {}
        change = update(table).where(table.c.host.in_(held), table.c.owner == self.owner)
        await self._worker.call(lambda c: c.execute(change.values(expires_at=0.0)))

    async def give(self, host: str, to: str) -> None:
        """Hand a lease to another daemon, with a new token; NotDriven where it is not ours."""
        await self._worker.call(lambda c: self._give(c, host, to))
        self.held.pop(host, None)

    def _give(self, connection: Connection, host: str, to: str) -> None:
        self.guard(connection, host)
        table = tables.leases
        values = {"owner": to, "expires_at": database_time(connection) + LEASE_S}
        given = update(table).where(table.c.host == host)
        connection.execute(given.values(**values, token=table.c.token + 1))

    def guard(self, connection: Connection, host: str) -> None:
        """Within a transaction: nobody may take the host before it ends; NotDriven if one has."""
        table = tables.leases
        query = (
            select(table.c.token)
            .where(table.c.host == host, table.c.owner == self.owner)
            .with_for_update(read=True)
        )
        token = connection.execute(query).scalar()
        if token is None or token != self.held.get(host):
            raise NotDriven(
                f"{host} is driven by another daemon now; nothing was decided here.",
                target=host,
                remedy="`orch daemon status` says by which one.",
            )

    def _turn(
        self,
        connection: Connection,
        wanted: list[str],
        driver: Mapping[str, Any],
        targets: Mapping[str, list[Any]],
    ) -> tuple[dict[str, int], tuple[Lease, ...]]:
        table = tables.leases
        now = database_time(connection)
        held = {}
        for host, token in self._free(connection, wanted, now):
            values = {
                "owner": self.owner,
                "token": token,
                "expires_at": now + LEASE_S,
                "driver": plain(driver),
                "targets": plain(targets.get(host, [])),
            }
            connection.execute(update(table).where(table.c.host == host).values(values))
            held[host] = token
        rows = connection.execute(select(table).order_by(table.c.host)).mappings()
        return held, tuple(
            Lease(
                host=row["host"],
                owner=row["owner"],
                token=row["token"],
                left_s=row["expires_at"] - now,
                driver=row["driver"],
                targets=tuple(row["targets"]),
            )
            for row in rows
        )

    def _free(self, connection: Connection, wanted: list[str], now: float) -> list[tuple[str, int]]:
        """The hosts that can be renewed or taken, each with its token then.

        Locks no row of another daemon's and hardly waits for one: one that stands still in the
        middle of a transaction keeps its own hosts until the server ends that, and nobody else's.
        """
        table = tables.leases
        known = set(connection.execute(select(table.c.host)).scalars())
        if new := sorted(set(wanted) - known):
            _add(connection, new)
        mine = table.c.owner == self.owner
        free = (
            select(table.c.host, table.c.token, table.c.owner)
            .where(table.c.host.in_(wanted), or_(mine, table.c.expires_at < now))
            .with_for_update(skip_locked=True)
        )
        rows = connection.execute(free).all()
        return [(row.host, row.token + (row.owner != self.owner)) for row in rows]


def _add(connection: Connection, hosts: list[str]) -> None:
    """Rows for hosts that have none, in the next turn where another daemon is about to add one.

    Whether that one will be there is known once the other's transaction ends, which may take as
    long as a lease: what is held already must be renewed before.
    """
    none = {"owner": "", "token": 0, "expires_at": 0.0, "driver": {}, "targets": []}
    new = insert(connection, tables.leases).values([{"host": host, **none} for host in hosts])
    try:
        with connection.begin_nested():
            connection.execute(text(f"SET LOCAL lock_timeout = '{ADDED_WITHIN_MS}ms'"))
            connection.execute(new.on_conflict_do_nothing(index_elements=["host"]))
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) != _LOCK_NOT_AVAILABLE:
            raise


def database_time(connection: Connection) -> float:
    """Unix seconds by the one clock that all daemons of a fleet share."""
    now = cast(func.extract("epoch", func.clock_timestamp()), Float)
    return float(connection.execute(select(now)).scalar_one())
