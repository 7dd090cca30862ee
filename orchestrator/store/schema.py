"""Open the database: one SQLite file with WAL and full synchronisation, or a PostgreSQL by its URL.

Owns migration to the newest schema, refusal of a newer one, and setting a damaged file aside.
Must not: know what the tables are for.
"""

import logging
import sqlite3
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import ArgumentError, DatabaseError, DBAPIError, OperationalError
from sqlalchemy.pool import StaticPool

from orchestrator.core.errors import StoreError
from orchestrator.store.checking import (
    DAMAGE_CODES,
    DamagedDatabaseError,
    check,
    check_rows,
    code_of,
)
from orchestrator.store.dialects import keep_text_storable
from orchestrator.store.tables import metadata

HEAD = "0008"
"""The newest revision; Alembic is only loaded where a database has an older one."""

DATABASE_FILE = "orch.db"

POSTGRES_DRIVER = "postgresql+psycopg"
_POSTGRES_WORDS = frozenset({"postgresql", "postgres", POSTGRES_DRIVER})
_ONE_MIGRATES = 7_071_982
"""Of several daemons that start at once one migrates; the number is any that nobody else uses."""
_PATIENCE = (
    "-c statement_timeout=7000 -c lock_timeout=6000 -c idle_in_transaction_session_timeout=8000"
)
"""A server that still thinks says so itself, before whoever asks gives it up (worker.py, 8 s)."""
_MIGRATES_WITHIN = ("SET LOCAL statement_timeout = '60s'", "SET LOCAL lock_timeout = '60s'")
_CONNECTION = {
    "connect_timeout": "5",
    "options": _PATIENCE,
    "tcp_user_timeout": "10000",
    # A connection that only listens notices by these that the other end is gone.
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
}
_MIGRATIONS = Path(__file__).parent / "migrations"
_VERSION_TABLE = (
    "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL,"
    " CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
)
_DISK_CODES = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR})

logger = logging.getLogger(__name__)


def open_database(folder: Path, stamp: str) -> tuple[Engine, Path | None]:
    """An engine at the newest schema, and where a damaged file was put (named with `stamp`).

    Raises StoreError where the folder cannot be written or read, and where the schema is newer than
    this orch, or a row is nothing that it would write.
    """
    path = folder / DATABASE_FILE
    try:
        return _open_sqlite(path), None
    except DamagedDatabaseError as exc:
        aside = set_aside(path, stamp)
        logger.error(  # noqa: TRY400  the reason is in the sentence, a traceback adds nothing
            "store.set_aside",
            extra={"path": str(path), "aside": str(aside), "reason": str(exc)},
        )
        return _open_sqlite(path), aside


def open_postgres(said: str) -> tuple[Engine, str]:
    """An engine at the newest schema of the database at a URL, and its name without a password.

    Raises StoreError where the URL is none of PostgreSQL, or nothing answers there.
    """
    url = _postgres_url(said)
    name = f"postgresql://{url.query.get('host') or url.host or 'localhost'}/{url.database}"
    try:
        engine = create_engine(
            url.update_query_dict(_CONNECTION),
            pool_size=1,
            max_overflow=0,
            pool_pre_ping=True,
        )
        keep_text_storable(engine)
        with engine.begin() as connection:
            for setting in _MIGRATES_WITHIN:
                connection.execute(text(setting))
            connection.execute(text(f"SELECT pg_advisory_xact_lock({_ONE_MIGRATES})"))
            migrate(connection, name)
    except ModuleNotFoundError as exc:
        raise StoreError(
            "ORCH_STORE names a PostgreSQL, and its driver is not installed.",
            remedy="Install it where the daemon runs: pip install 'orch[postgres]'.",
        ) from exc
    except DBAPIError as exc:
        raise translated(exc) from exc
    return engine, name


def _postgres_url(said: str) -> URL:
    try:
        url = make_url(said)
    except ArgumentError as exc:
        raise StoreError(
            "ORCH_STORE is no URL of a database.",
            remedy=f"Write {POSTGRES_DRIVER}://USER@HOST/NAME.",
        ) from exc
    if url.drivername not in _POSTGRES_WORDS or not url.database:
        raise StoreError(
            f"ORCH_STORE names {url.drivername}, or no database of it; only PostgreSQL serves.",
            remedy=f"Write {POSTGRES_DRIVER}://USER@HOST/NAME, or leave it out for SQLite.",
        )
    return url.set(drivername=POSTGRES_DRIVER)


def set_aside(path: Path, stamp: str) -> Path:
    """Rename the database and its WAL, so that nothing of them is lost or read again."""
    aside = path.with_name(f"{path.name}.damaged-{stamp}")
    for suffix in ("-wal", "-shm", ""):
        part = path.with_name(path.name + suffix)
        if part.exists():
            part.rename(aside.with_name(aside.name + suffix))
    return aside


def migrate(connection: Connection, where: str) -> None:
    """Bring the schema to HEAD; StoreError where it was written by a newer orch."""
    current = _revision(connection)
    if current is None:
        _create(connection)
    elif current != HEAD:
        upgrade(connection, where, current)


def _create(connection: Connection) -> None:
    """All tables as they are now: what the revisions would come to, without Alembic's 12 MB."""
    metadata.create_all(connection, checkfirst=False)
    connection.execute(text(_VERSION_TABLE))
    connection.execute(text("INSERT INTO alembic_version VALUES (:head)"), {"head": HEAD})


def upgrade(connection: Connection, where: str, current: str | None) -> None:
    """Run the revisions after `current` (None: all); StoreError where it is not one of ours."""
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if current is not None and current not in known:
        raise StoreError(
            f"{where} was written by a newer orch (schema {current}); this one knows up to {HEAD}.",
            remedy="Install that orch again, or start with another state folder.",
        )
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def translated(exc: DBAPIError) -> StoreError:
    """The StoreError that says what a database error means to a person."""
    code = code_of(exc)
    reason = str(exc.orig).strip()
    if exc.connection_invalidated or (code is None and isinstance(exc, OperationalError)):
        return StoreError(
            f"The database cannot be reached: {reason}.",
            remedy="Runs go on meanwhile; see that it runs, and that ORCH_STORE is right.",
        )
    if code in _DISK_CODES:
        return StoreError(
            f"The store cannot be written: {reason}.",
            remedy="Free some space on the disk of the state folder; reading goes on meanwhile.",
        )
    if code in DAMAGE_CODES:
        return StoreError(
            f"The database is damaged: {reason}.",
            remedy="Restart the daemon; unless only one run's past is hit, it sets the file aside "
            "and asks the targets what runs.",
        )
    return StoreError(f"The database refused: {reason}.", remedy="See the daemon's log.")


def _open_sqlite(path: Path) -> Engine:
    engine = create_engine(
        f"sqlite:///{path}", poolclass=StaticPool, connect_args={"check_same_thread": False}
    )
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    keep_text_storable(engine)
    ended_well = _ended_well(path)  # before SQLite clears it up
    try:
        with engine.connect() as connection:
            check(connection, path, ended_well=ended_well)
        with engine.begin() as connection:
            migrate(connection, str(path))
        with engine.connect() as connection:
            check_rows(connection, path)
    except DatabaseError as exc:
        engine.dispose()
        if code_of(exc) in DAMAGE_CODES:
            raise DamagedDatabaseError(str(exc.orig)) from exc
        raise StoreError(
            f"{path} cannot be opened: {exc.orig}.",
            remedy="Check that the state folder exists, is yours, that its disk is neither full "
            "nor failing, and that no other program holds the file; then start the daemon again.",
        ) from exc
    except UnicodeDecodeError as exc:  # of SQLite's own error about a garbled name
        engine.dispose()
        raise DamagedDatabaseError(str(exc)) from exc
    except (DamagedDatabaseError, StoreError):
        engine.dispose()
        raise
    path.chmod(0o600)
    return engine


def _ended_well(path: Path) -> bool:
    """Whether the last one that wrote put it all into the file, and took its WAL away."""
    try:
        return path.with_name(f"{path.name}-wal").stat().st_size == 0
    except OSError:
        return True  # there is none


def _prepare(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None  # we say BEGIN ourselves, so that DDL is in transactions too
    connection.execute("PRAGMA busy_timeout = 2000")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA cell_size_check = ON")


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    row = connection.execute(text("SELECT version_num FROM alembic_version")).first()
    return None if row is None else str(row[0])
