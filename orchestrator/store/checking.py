"""Whether a database is whole: its pages, and every row that a daemon lists.

SQLite's own check sees pages and not what stands in them: one bit of a text, and every list with
that row in it fails for ever. Owns that look, and what counts as damage. Must not: repair, or take
for damage what another orch wrote, or what the disk or another program refuses at the moment.
"""

import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, RowMapping, Table, literal_column, select, text
from sqlalchemy.exc import DBAPIError

from orchestrator.core.errors import StoreError
from orchestrator.store import rows, tables

DAMAGE_CODES = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})

_LARGE_BYTES = 100 * 1024**2
"""Above it indexes are not held against their tables: that takes longer than a start may."""
_MOST_ROWS = 20_000
"""The newest of each table are looked at, so that a start has an end however old the fleet is."""
_READERS: Mapping[Table, Callable[[RowMapping], Any]] = {
    tables.runs: rows.run_of,
    tables.attempts: rows.attempt_of,
    tables.incidents: rows.incident_of,
    tables.deliveries: rows.delivery_of,
    tables.actions: rows.action_of,
    tables.releases: rows.release_of,
}
"""By table; of the others it is enough that their texts and documents can be read."""
_BY_RUN = frozenset({tables.journal, tables.environments, tables.request_parts})
"""Most of a database, and read for one run only: a row that is none there costs nothing else."""


class DamagedDatabaseError(Exception):
    """The file is no database any more, fails SQLite's own check, or has a row that is none."""


def check(connection: Connection, path: Path, *, ended_well: bool) -> None:
    """DamagedDatabaseError where SQLite finds something; after an unclean end it looks longer."""
    whole = not ended_well and path.stat().st_size <= _LARGE_BYTES
    pragma = "integrity_check" if whole else "quick_check"
    found = connection.execute(text(f"PRAGMA {pragma}(1)")).scalar_one()
    if found != "ok":
        raise DamagedDatabaseError(found)


def check_rows(connection: Connection, path: Path) -> None:
    """DamagedDatabaseError where a row's text or document is none.

    StoreError where it is one, and not what this orch would have written.
    """
    for table in tables.metadata.sorted_tables:
        if table not in _BY_RUN:
            _check_table(connection, table, path)


def code_of(exc: DBAPIError) -> int | None:
    """SQLite's primary code of an error; None of another database's."""
    code = getattr(exc.orig, "sqlite_errorcode", None)
    if code is None and isinstance(exc.orig, sqlite3.OperationalError):
        return sqlite3.SQLITE_CORRUPT  # what Python itself finds: a text that is none
    return None if code is None else int(code) & 0xFF


def _check_table(connection: Connection, table: Table, path: Path) -> None:
    reader, number = _READERS.get(table), 0
    newest = select(table).order_by(literal_column("rowid").desc()).limit(_MOST_ROWS)
    try:
        for row in connection.execute(newest).mappings():
            number += 1
            if reader is not None:
                _check_row(reader, row, table, path)
    except DBAPIError as exc:
        if code_of(exc) not in DAMAGE_CODES:
            raise
        raise DamagedDatabaseError(_told(table, number, exc)) from exc
    except (ValueError, TypeError, RecursionError) as exc:
        raise DamagedDatabaseError(_told(table, number, exc)) from exc


def _told(table: Table, number: int, exc: Exception) -> str:
    # A document that is none is told with its text, which may be long.
    return f"row {number + 1} of {table.name}, newest first: {type(exc).__name__}: {str(exc)[:200]}"


def _check_row(
    reader: Callable[[RowMapping], Any], row: RowMapping, table: Table, path: Path
) -> None:
    try:
        reader(row)
    except (ValueError, TypeError, KeyError) as exc:
        key = ", ".join(f"{column.name} {row[column.name]}" for column in table.primary_key)
        raise StoreError(
            f"{path} was written by another orch, or is damaged: {table.name}, {key}: "
            f"{type(exc).__name__}: {str(exc)[:200]}.",
            remedy=f"Install that orch again. To begin anew from what the targets know (silences "
            f"and acknowledgements are lost), move {path.name}, {path.name}-wal and "
            f"{path.name}-shm there to another folder, and start the daemon.",
        ) from exc
