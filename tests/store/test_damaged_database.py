"""A database that a power cut or a bad disk left in pieces: it serves, or is set aside whole."""

import asyncio
import logging
import random
import re
import shutil
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Engine, event

from orchestrator.clock import SystemClock
from orchestrator.core.decide.decision import Decision, Note
from orchestrator.core.errors import StoreError
from orchestrator.store import Store
from orchestrator.store.schema import DATABASE_FILE
from tests.store.nouns import draft, incident, outgoing

PAGE = 4096
RUNS = 20
ROUNDS = 60


async def fill(store: Store) -> None:
    """Some of everything that a daemon needs at its start."""
    for number in range(RUNS):
        run, name = await store.runs.create(draft()), f"i{number}"
        note = Note(kind="run.phase", body={"text": "y" * 200})
        await store.apply(
            Decision(
                run=run,
                incidents=(incident(run.id, ident=name),),
                outgoing=(outgoing(name),),
                notes=(note,),
            )
        )
        await store.values.set(f"key{number}", {"a": "b" * 100})


async def use(store: Store) -> int:
    """What a daemon reads and writes at its start; how many runs it knows."""
    runs = await store.runs.list()
    await store.views(run.id for run in runs)
    for run in runs:
        await store.journal.of(run.id, limit=9)
    await store.incidents.list()
    await store.deliveries.pending()
    await store.actions.pending()
    await store.values.several([f"key{number}" for number in range(RUNS)])
    run = await store.runs.create(draft())
    new = Decision(run=run, incidents=(incident(run.id, ident="new"),), outgoing=(outgoing("new"),))
    await store.apply(new)
    return len(runs)


def garble(path: Path, rng: random.Random, times: int, size: int) -> None:
    """Random bytes at random places."""
    content = bytearray(path.read_bytes())
    for _ in range(times):
        at = rng.randrange(max(1, len(content) - size))
        content[at : at + size] = rng.randbytes(size)
    path.write_bytes(content)


def forget_page(path: Path, rng: random.Random) -> None:
    """One page that never reached the disk."""
    content = bytearray(path.read_bytes())
    at = rng.randrange(len(content) // PAGE) * PAGE
    content[at : at + PAGE] = bytes(PAGE)
    path.write_bytes(content)


def cut(path: Path, rng: random.Random) -> None:
    """Its end never reached the disk."""
    content = path.read_bytes()
    path.write_bytes(content[: rng.randrange(len(content))])


async def opened(folder: Path) -> Store:
    """The store, after what a refusal asks for, where there is one."""
    try:
        return await Store.open(folder, SystemClock())
    except StoreError as exc:
        if "was written by another orch" not in exc.message:
            raise
        move_away(folder)
        return await Store.open(folder, SystemClock())


def move_away(folder: Path) -> None:
    """What the refusal says that a person may do."""
    (folder / "by hand").mkdir()
    for part in folder.glob(f"{DATABASE_FILE}*"):
        part.rename(folder / "by hand" / part.name)


DAMAGES: dict[str, Callable[[Path, Path, random.Random], None]] = {
    "a few bytes": lambda file, _, rng: garble(file, rng, 3, 8),
    "pieces of pages": lambda file, _, rng: garble(file, rng, 5, 512),
    "a page of zeros": lambda file, _, rng: forget_page(file, rng),
    "the end": lambda file, _, rng: cut(file, rng),
    "bytes of the WAL": lambda _, wal, rng: garble(wal, rng, 4, 64),
    "the end of the WAL": lambda _, wal, rng: cut(wal, rng),
    "the WAL": lambda _, wal, __: wal.unlink(),
}


@pytest.fixture
async def cut_off(tmp_path: Path) -> Path:
    """The files of a database as a power cut finds them: some of it in the WAL only."""
    store = await Store.open(tmp_path / "state", SystemClock())
    await fill(store)
    folder = tmp_path / "cut"
    for checkpoint in (True, False):
        if checkpoint:
            path = tmp_path / "state" / DATABASE_FILE
            other = sqlite3.connect(path)
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            other.close()
        await store.values.set("later", {"a": 1})
    shutil.copytree(tmp_path / "state", folder)
    await store.close()
    return folder


@pytest.mark.parametrize("damage", DAMAGES)
async def test_whatever_is_damaged_a_daemon_can_work(
    cut_off: Path, tmp_path: Path, damage: str
) -> None:
    """What serves serves whole; all else is set aside and begun anew, the old files kept.

    One byte may make a word of a state that another orch could know: that is a person's to decide.
    """
    for number in range(ROUNDS // len(DAMAGES) + 1):
        folder, rng = tmp_path / f"{number}", random.Random(f"{damage} {number}")
        shutil.copytree(cut_off, folder)
        path = folder / DATABASE_FILE
        DAMAGES[damage](path, path.with_name(f"{path.name}-wal"), rng)
        logging.disable(logging.CRITICAL)
        try:
            store = await opened(folder)
        finally:
            logging.disable(logging.NOTSET)
        known = await use(store)
        assert known == (0 if store.set_aside or (folder / "by hand").exists() else RUNS)
        assert store.set_aside is None or store.set_aside.exists()
        await store.close()


def spoil(folder: Path, words: str) -> None:
    """A statement of which SQLite's own check sees nothing."""
    other = sqlite3.connect(folder / DATABASE_FILE)
    other.execute(words)
    other.commit()
    assert other.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    other.close()


SPOILS = {
    "a text that is none": "UPDATE runs SET directory = CAST(x'2fff41' AS TEXT) WHERE number = 3",
    "a document that is none": 'UPDATE deliveries SET alert = \'{"id": "i\' WHERE rowid = 2',
    "a value that is none": "UPDATE kv SET value = 'nul' WHERE key = 'key3'",
}


@pytest.mark.parametrize("words", SPOILS.values(), ids=SPOILS)
async def test_a_row_that_cannot_be_read_is_damage(
    tmp_path: Path, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    """SQLite finds nothing, and no list with that row could ever be read again."""
    store = await Store.open(tmp_path, SystemClock())
    await fill(store)
    await store.close()
    spoil(tmp_path, words)
    store = await Store.open(tmp_path, SystemClock())
    assert store.set_aside is not None
    assert await use(store) == 0
    (said,) = [one for one in caplog.records if one.msg == "store.set_aside"]
    assert vars(said)["reason"].startswith("row ")
    await store.close()


OTHERS = {
    "keys less": ("UPDATE deliveries SET alert = '{}' WHERE rowid = 2", "deliveries, seq 2: Type"),
    "another state": ("UPDATE runs SET state = 'asleep' WHERE number = 3", "runs, seq 3: Value"),
    "an action long done": (
        "INSERT INTO actions (key, run, attempt, kind, reason, state, created_at) "
        "VALUES ('k', 'r', 1, 'snapshot', '', 'done', 0)",
        "actions, seq 1: ValueError",
    ),
}


async def test_a_key_that_a_newer_orch_added_is_passed_over(tmp_path: Path) -> None:
    """All that this one knows of the alert is there."""
    store = await Store.open(tmp_path, SystemClock())
    await fill(store)
    await store.close()
    spoil(tmp_path, "UPDATE deliveries SET alert = json_set(alert, '$.more', 's') WHERE rowid = 2")
    store = await Store.open(tmp_path, SystemClock())
    assert store.set_aside is None
    assert await use(store) > 0
    await store.close()


@pytest.mark.parametrize(("words", "told"), OTHERS.values(), ids=OTHERS)
async def test_what_another_orch_wrote_is_no_damage(tmp_path: Path, words: str, told: str) -> None:
    """After a downgrade nothing is lost without asking: the start is refused, and says the way."""
    store = await Store.open(tmp_path, SystemClock())
    await fill(store)
    await store.close()
    spoil(tmp_path, words)
    before = (tmp_path / DATABASE_FILE).read_bytes()
    with pytest.raises(StoreError, match=f"written by another orch.*{told}.*To begin anew.*move"):
        await Store.open(tmp_path, SystemClock())
    assert (tmp_path / DATABASE_FILE).read_bytes() == before
    move_away(tmp_path)
    store = await Store.open(tmp_path, SystemClock())
    assert await use(store) == 0
    await store.close()


BY_RUN = {
    "journal": "UPDATE journal SET body = '{' WHERE seq = 2",
    "environments": "INSERT INTO environments VALUES ('dflash-1', 1, 'end', 0, '{', '{}')",
}


@pytest.mark.parametrize("words", BY_RUN.values(), ids=BY_RUN)
async def test_what_only_one_run_reads_costs_nothing_else(tmp_path: Path, words: str) -> None:
    """A line of its past that is none: the database serves on, and that past is told as damaged."""
    store = await Store.open(tmp_path, SystemClock())
    await fill(store)
    await store.close()
    spoil(tmp_path, words)
    store = await Store.open(tmp_path, SystemClock())
    assert store.set_aside is None
    runs = await store.runs.list()
    assert len(runs) == RUNS
    told = [
        error
        for run in runs
        for read in (partial(store.journal.of, limit=9), store.environments.of)
        for error in await asyncio.gather(read(run.id), return_exceptions=True)
        if isinstance(error, BaseException)
    ]
    assert [type(error) for error in told] == [StoreError]
    await store.close()


async def refused(folder: Path, seen: Callable[[str], None]) -> StoreError:
    """How an opening ends in which a statement that reads rows has this happen to it."""

    def prepare(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        seen(statement)

    event.listen(Engine, "before_cursor_execute", prepare)
    try:
        with pytest.raises(StoreError) as caught:
            await Store.open(folder, SystemClock())
    finally:
        event.remove(Engine, "before_cursor_execute", prepare)
    return caught.value


async def test_a_disk_that_hiccups_is_no_damage(tmp_path: Path) -> None:
    """One read that fails while rows are looked at refuses the start, and the next one is whole."""
    store = await Store.open(tmp_path, SystemClock())
    await fill(store)
    await store.close()

    def hiccup(statement: str) -> None:
        if "FROM incidents" in statement:
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR_READ
            raise error

    error = await refused(tmp_path, hiccup)
    assert "cannot be opened: disk I/O error" in error.message
    store = await Store.open(tmp_path, SystemClock())
    assert store.set_aside is None
    assert await use(store) == RUNS
    await store.close()


async def test_a_database_that_another_program_holds_is_no_damage(tmp_path: Path) -> None:
    """A backup that begins while rows are about to be looked at: it is said, and nothing lost."""
    store = await Store.open(tmp_path, SystemClock())
    await fill(store)
    await store.close()
    other = sqlite3.connect(tmp_path / DATABASE_FILE, isolation_level=None, check_same_thread=False)
    begun = []

    def hold(statement: str) -> None:
        if statement == "BEGIN IMMEDIATE":
            begun.append(statement)
        if len(begun) == 3 and not other.in_transaction:  # pages, schema, rows
            other.execute("BEGIN IMMEDIATE")

    error = await refused(tmp_path, hold)
    assert "database is locked" in error.message
    other.close()
    store = await Store.open(tmp_path, SystemClock())
    assert store.set_aside is None
    assert await use(store) == RUNS
    await store.close()


async def test_a_spoiled_revision_is_damage(tmp_path: Path) -> None:
    """The first text that is read is as likely hit as any other."""
    store = await Store.open(tmp_path, SystemClock())
    await fill(store)
    await store.close()
    spoil(tmp_path, "UPDATE alembic_version SET version_num = CAST(x'ff303037' AS TEXT)")
    store = await Store.open(tmp_path, SystemClock())
    assert store.set_aside is not None
    assert await use(store) == 0
    await store.close()


async def test_only_an_unclean_end_has_indexes_held_against_their_tables(tmp_path: Path) -> None:
    """That takes ten times as long, and a start with much in it would not end in time."""
    asked: list[tuple[str, str]] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        asked.extend(re.findall(r"(\w+)_check\(1\)|FROM (journal|environments)", statement))

    store = await Store.open(tmp_path / "state", SystemClock())
    await fill(store)
    shutil.copytree(tmp_path / "state", tmp_path / "cut")
    await store.close()
    event.listen(Engine, "before_cursor_execute", note)
    try:
        for folder in ("state", "cut"):
            await (await Store.open(tmp_path / folder, SystemClock())).close()
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    assert asked == [("quick", ""), ("integrity", "")]


async def test_an_index_that_misses_a_row_is_damage(tmp_path: Path) -> None:
    """After an unclean end: what is looked up by it would not be found, or be there twice."""
    store = await Store.open(tmp_path, SystemClock())
    await fill(store)
    await store.close()
    path = tmp_path / DATABASE_FILE
    index = "type = 'index' AND tbl_name = 'incidents' AND sql IS NOT NULL"
    other = sqlite3.connect(path)
    entry = other.execute(f"SELECT * FROM sqlite_master WHERE {index}").fetchone()
    other.execute("PRAGMA writable_schema = ON")
    other.execute("DELETE FROM sqlite_master WHERE name = ?", (entry[1],))
    other.commit()
    other.close()
    other = sqlite3.connect(path)
    other.execute("DELETE FROM incidents WHERE id = 'i3'")
    other.execute("PRAGMA writable_schema = ON")
    other.execute("INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", entry)
    other.commit()
    shutil.copytree(tmp_path, tmp_path / "cut")
    other.close()
    store = await Store.open(tmp_path / "cut", SystemClock())
    assert store.set_aside is not None
    await store.close()


async def test_a_text_that_is_spoiled_under_a_daemon_is_damage(sqlite_store: Store) -> None:
    """It is told as that, with what helps, and not as a database that is away."""
    run = await sqlite_store.runs.create(draft())
    words = "UPDATE runs SET directory = CAST(x'2fff41' AS TEXT)"
    await sqlite_store._worker.call(lambda c: c.exec_driver_sql(words))
    with pytest.raises(StoreError, match=r"damaged.*Restart the daemon"):
        await sqlite_store.runs.get(run.id)
