"""Opening the database: migrations, refusals, and a damaged file."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, inspect, text

from orchestrator.clock import SystemClock
from orchestrator.core.errors import StoreError
from orchestrator.store import Store, schema
from orchestrator.store.tables import metadata
from tests.store.nouns import draft

DATABASE = schema.DATABASE_FILE


def test_migrations_make_the_tables(tmp_path: Path) -> None:
    """What the revisions make is what the code thinks there is, and HEAD is the newest one."""
    engine = create_engine(f"sqlite:///{tmp_path / DATABASE}")
    with engine.begin() as connection:
        schema.upgrade(connection, "the test", None)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    engine.dispose()
    revisions = ScriptDirectory(str(Path(schema.__file__).parent / "migrations"))
    assert revisions.get_current_head() == schema.HEAD


def test_a_new_database_is_what_the_revisions_make(tmp_path: Path) -> None:
    """It is made in one go; its tables, columns, keys and indexes are those of an upgraded one."""
    ways: tuple[Callable[[Connection], None], ...] = (
        lambda connection: schema.upgrade(connection, "the test", None),
        lambda connection: schema.migrate(connection, "the test"),
    )
    shapes: list[dict[str, object]] = []
    for make in ways:
        engine = create_engine(f"sqlite:///{tmp_path}/{len(shapes)}.db")
        with engine.begin() as connection:
            make(connection)
        with engine.connect() as connection:
            shapes.append(shape(connection))
        engine.dispose()
    assert shapes[0] == shapes[1]
    assert shapes[0]["version"] == [(schema.HEAD,)]


def shape(connection: Connection) -> dict[str, object]:
    """All that SQLite tells of a database's tables."""
    names = sorted(inspect(connection).get_table_names())
    found: dict[str, object] = {"names": names}
    for name in names:
        columns = [
            tuple(row)[1:] for row in connection.exec_driver_sql(f"PRAGMA table_info({name})").all()
        ]
        indexes = inspect(connection).get_indexes(name)
        found[name] = (
            columns,
            sorted(
                (str(one["name"]), tuple(one["column_names"]), one["unique"]) for one in indexes
            ),
            sorted(
                tuple(one["column_names"])
                for one in inspect(connection).get_unique_constraints(name)
            ),
        )
    found["version"] = [
        tuple(row) for row in connection.execute(text("SELECT * FROM alembic_version")).all()
    ]
    found["counted"] = sorted(
        str(row[0])
        for row in connection.execute(
            text("SELECT name FROM sqlite_master WHERE sql LIKE '%AUTOINCREMENT%'")
        )
    )
    return found


async def test_writes_are_synchronous(tmp_path: Path) -> None:
    """The database uses a WAL with full synchronisation, and is readable by its owner alone."""
    engine, aside = schema.open_database(tmp_path, "now")
    with engine.connect() as connection:
        pragmas = [
            connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("journal_mode", "synchronous")
        ]
    engine.dispose()
    assert (pragmas, aside) == (["wal", 2], None)
    assert (tmp_path / DATABASE).stat().st_mode & 0o077 == 0


async def test_newer_schema_is_refused(tmp_path: Path) -> None:
    """A database of a newer orch is left alone, with a sentence that says what to do."""
    store = await Store.open(tmp_path, SystemClock())
    await store.runs.create(draft())
    await store.close()
    with sqlite3.connect(tmp_path / DATABASE) as raw:
        raw.execute("UPDATE alembic_version SET version_num = '0099'")
    raw.close()
    before = (tmp_path / DATABASE).read_bytes()
    with pytest.raises(StoreError, match=r"newer orch \(schema 0099\).*Install that orch"):
        await Store.open(tmp_path, SystemClock())
    assert (tmp_path / DATABASE).read_bytes() == before


@pytest.mark.parametrize("damage", ["header", "middle", "garbage", "text"])
async def test_damaged_database_is_set_aside(tmp_path: Path, damage: str) -> None:
    """A damaged file is kept under another name; the new store gives no number twice."""
    store = await Store.open(tmp_path, SystemClock())
    run = [await store.runs.create(draft()) for _ in range(60)][-1]
    store.logs.append(run.id, 1, 0, b"output\n", 1.0)
    await store.close()
    path = tmp_path / DATABASE
    content = bytearray(path.read_bytes())
    if damage == "header":
        content[:16] = b"\0" * 16
    elif damage == "middle":
        content[4096:] = b"\xff" * (len(content) - 4096)
    elif damage == "garbage":
        content = bytearray(b"\x07" * len(content))
    else:
        content = bytearray(b"not a database, but somebody's notes\n" * 300)
    path.write_bytes(bytes(content))

    reopened = await Store.open(tmp_path, SystemClock())
    assert reopened.set_aside is not None
    assert reopened.set_aside.name.startswith(f"{DATABASE}.damaged-")
    assert reopened.set_aside.read_bytes() == bytes(content)
    assert await reopened.runs.list() == ()
    assert (await reopened.runs.create(draft())).number == 61
    assert reopened.logs.read(run.id, 1, 0, 100) == b"output\n"
    await reopened.close()


async def test_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """A file in the place of the state folder is a StoreError with the path and a remedy."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match=r"state folder .*/file/state cannot be made"):
        await Store.open(tmp_path / "file" / "state", SystemClock())


async def test_database_that_is_a_folder(tmp_path: Path) -> None:
    """What cannot be opened at all is said, not set aside."""
    (tmp_path / DATABASE).mkdir()
    with pytest.raises(StoreError, match="cannot be opened"):
        await Store.open(tmp_path, SystemClock())
    assert (tmp_path / DATABASE).is_dir()
