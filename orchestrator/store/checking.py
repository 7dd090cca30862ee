"""Whether every row of a database can still be read as what it was written.

SQLite's own check sees pages and not what stands in them: one bit of a text, and every list with
that row in it fails for ever. Owns that look. Must not: repair.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sqlalchemy import Connection, RowMapping, Table, select
from sqlalchemy.exc import DBAPIError

from orchestrator.store import rows, tables

_READERS: Mapping[Table, Callable[[RowMapping], Any]] = {
    tables.runs: rows.run_of,
    tables.attempts: rows.attempt_of,
    tables.incidents: rows.incident_of,
    tables.deliveries: rows.delivery_of,
    tables.actions: rows.action_of,
    tables.releases: rows.release_of,
}
"""By table; of the others it is enough that their texts and documents can be read."""


def unreadable(connection: Connection) -> str | None:
    """The first row that is none any more, with its table; None where all are whole."""
    for table in tables.metadata.sorted_tables:
        number = 0
        try:
            for number, _ in enumerate(_read(connection, table), start=1):  # noqa: B007  said below
                pass
        except (DBAPIError, ValueError, TypeError, KeyError) as exc:
            # A document that is none is told with its text, which may be long.
            return f"row {number + 1} of {table.name}: {type(exc).__name__}: {str(exc)[:200]}"
    return None


def _read(connection: Connection, table: Table) -> Iterator[Any]:
    found, reader = connection.execute(select(table)), _READERS.get(table)
    return iter(found) if reader is None else map(reader, found.mappings())
