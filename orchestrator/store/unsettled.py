"""Hosts where something is left to do, of whatever kind it is.

Owns what counts as that, over the tables of all kinds. Must not: say who is to do it.
"""

from sqlalchemy import Connection, select, union

from orchestrator.core.model import IncidentState
from orchestrator.store import actions, deliveries, tables


def unsettled_hosts(connection: Connection) -> frozenset[str]:
    """Hosts of live runs, of actions and alerts that are pending, and of open incidents."""
    runs, sent, done = tables.runs.c, tables.deliveries.c, tables.actions.c
    known = tables.incidents.c
    live = select(runs.host).where(runs.ended_at.is_(None))
    alerted = select(sent.host).where(sent.state == deliveries.PENDING)
    acted = select(runs.host).join_from(
        tables.actions, tables.runs, (done.run == runs.id) & (done.state == actions.PENDING)
    )
    cared_for = select(runs.host).join_from(
        tables.incidents,
        tables.runs,
        (known.run == runs.id) & (known.state == IncidentState.OPEN),
    )
    found = connection.execute(union(live, alerted, acted, cared_for))
    return frozenset(found.scalars())
