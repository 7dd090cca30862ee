"""What is fetched from a target after its run had ended, and what is made of it."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.clock import SystemClock
from orchestrator.core.contract import EXIT_FILE, LOG_FILE, METRICS_FILE
from orchestrator.core.decide.decision import Decision
from orchestrator.core.errors import OrchError
from orchestrator.core.model import Attempt, Run, RunState
from orchestrator.daemon.board import Board
from orchestrator.daemon.environment import Environment
from orchestrator.daemon.fetching import Fetching, Found
from orchestrator.daemon.fleet import Fleet
from orchestrator.daemon.inventory_file import InventoryFile
from orchestrator.daemon.leasing import Leasing
from orchestrator.reading import READ_BY, READ_TO
from orchestrator.store import Store, points
from orchestrator.transport.pool import Pool
from tests.daemon.crews import own_key
from tests.link.fakes import until
from tests.store.nouns import draft

INVENTORY = """
version: 1
hosts: {here: {transport: local}, gone: {hostname: 127.0.0.1, port: 1}}
targets: {ct200: {host: here}, ct202: {host: gone}}
"""
AT_ONCE_S = 30.0
"""Less than a client is made to wait for what is still being fetched."""
LINES = 20_000
PIECE_BYTES = 64 * 1024


def test_a_log_that_comes_at_once_gives_every_point() -> None:
    """A long run's log, which took hours to print and comes in a second, is no flood."""
    whole = b"".join(b"step=%d loss=%d.5\n" % (one, one) for one in range(1, LINES + 1))
    found = Found({"step": r"step=(?P<value>\d+)", "loss": r"loss=(?P<value>\S+)"})
    told = [
        json.loads(point)
        for begin in range(0, len(whole), PIECE_BYTES)
        for point in found.take(whole[begin : begin + PIECE_BYTES], 1.0)
    ]
    assert [(one["step"], one["loss"]) for one in told] == [
        (one, one + 0.5) for one in range(1, LINES + 1)
    ]


class OfAFleet(Leasing):
    """A daemon that shares its fleet, and drives every host of it now."""

    @property
    def shared(self) -> bool:
        """With somebody."""
        return True


@pytest.fixture
async def fetching(store: Store, tmp_path: Path) -> AsyncIterator[Fetching]:
    """Of a daemon that knows ct200, which is this machine, and ct202, where nothing listens."""
    path, clock = tmp_path / "inventory.yaml", SystemClock()
    path.write_text(INVENTORY)
    file = InventoryFile(path, tmp_path / "kept.yaml")
    async with AsyncExitStack() as stack:
        pool = Pool()
        stack.push_async_callback(pool.close)
        fleet = Fleet(pool, clock, Board(clock), own_key(), lambda _: 0)
        stack.push_async_callback(fleet.close)
        yield Fetching(
            store=store,
            fleet=fleet,
            leasing=OfAFleet(None, clock, file.current, {}),
            file=file,
            environment=Environment({}, tmp_path / "env", time.monotonic),
            clock=clock,
        )


async def ended(
    store: Store,
    place: str,
    here: tuple[int, ...],
    *,
    target: str = "ct200",
    folder: Path = Path("/nowhere"),
) -> Run:
    """A run of two attempts, of which these printed `end` that is here; `folder` is their place."""
    made = await store.runs.create(replace(draft(), state=RunState.PENDING, target=target))
    run = replace(made, state=RunState.FINISHED, attempt=2)
    await store.runs.put(replace(run, metrics={READ_BY: place, READ_TO: "2:3"}))
    view = await store.view(run.id)
    attempts = (
        Attempt(number=one, directory=str(folder / str(one)), started_at=1.0) for one in (1, 2)
    )
    await store.apply(Decision(run=view.run, attempts=tuple(attempts)))
    for attempt in here:
        store.logs.append(run.id, attempt, 0, b"end", 2.0)
    return (await store.view(run.id)).run


async def test_an_earlier_attempt_that_is_gone_hides_none_that_is_here(
    store: Store, fetching: Fetching
) -> None:
    """Who took a run over in a back-off shows the attempt it saw end; of the other it says why."""
    run = await ended(store, store.place, here=(2,))
    await fetching.have(run)
    await fetching.have(run, (2,))
    assert not fetching._settled
    with pytest.raises(OrchError, match=r"Attempt 1 of dflash-1 has no output here.* no more"):
        await fetching.have(run, (1, 2))
    await fetching.have(run, (2,))


async def test_what_retention_forgot_is_not_fetched_again(store: Store, fetching: Fetching) -> None:
    """Of a run that ended here, for whoever asks for its newest attempt or its metrics."""
    run = await ended(store, store.place, here=())
    await fetching.have(run)
    await fetching.have(run, (2,))
    assert not fetching._settled


async def test_what_another_daemon_saw_end_is_not_hidden_by_what_is_gone(
    store: Store, fetching: Fetching
) -> None:
    """The newest attempt is here whole: nobody is asked for the one before, which is on no disk."""
    run = await ended(store, "there:/state", here=(2,))
    await fetching.have(run, (2,))
    assert not fetching._settled
    with pytest.raises(OrchError, match="another daemon saw it end") as refused:
        await fetching.have(run, (1,))
    assert refused.value.remedy == "That daemon has it: there:/state."


def printed(folder: Path, attempt: int, output: bytes, *, over: bool) -> None:
    """What the target has of an attempt; `over` with the record of its end."""
    place = folder / str(attempt)
    place.mkdir(exist_ok=True)
    (place / LOG_FILE).write_bytes(output)
    if over:
        (place / EXIT_FILE).write_text('{"code": 0}')


async def test_a_log_whose_link_is_closed_while_it_comes_is_fetched_again(
    store: Store, fetching: Fetching, tmp_path: Path
) -> None:
    """What had come until the target was edited was shown as all of it, until the next daemon."""
    run = await ended(store, "there:/state", here=(), folder=tmp_path)
    printed(tmp_path, 2, b"e", over=False)
    asked = asyncio.create_task(fetching.have(run, (2,)))
    await until(lambda: store.logs.end(run.id, 2) == 1)
    await fetching._fleet.leave(fetching._file.current().targets["ct200"].host)
    with pytest.raises(OrchError, match="the link was closed: 1 bytes so far") as refused:
        await asked
    assert refused.value.remedy == "Ask again in a moment."
    printed(tmp_path, 2, b"end", over=True)
    await fetching.have(run, (2,))
    assert store.logs.read(run.id, 2, 0, 9) == b"end"


async def test_what_is_here_is_shown_while_its_target_is_away(
    store: Store, fetching: Fetching
) -> None:
    """Fetched by a daemon before: an earlier attempt by itself, and the metrics of all of them."""
    run = await ended(store, "there:/state", here=(1, 2), target="ct202")
    async with asyncio.timeout(AT_ONCE_S):
        await fetching.have(run, (1,))
        await fetching.have(run)
    assert not fetching._settled


@pytest.mark.parametrize("place", [None, "there:/state"])
async def test_a_part_that_is_here_is_completed_by_a_target_that_no_job_uses(
    store: Store, fetching: Fetching, tmp_path: Path, place: str | None
) -> None:
    """Its link is begun by whoever asks: that there was none yet was taken for a dead host."""
    run = await ended(store, place or store.place, here=(1, 2), folder=tmp_path)
    printed(tmp_path, 1, b"end, and more", over=True)
    await fetching.have(run, (1,))
    assert store.logs.read(run.id, 1, 0, 99) == b"end, and more"


async def test_what_is_fetched_is_stored_without_a_secret(
    store: Store, fetching: Fetching, tmp_path: Path
) -> None:
    """As what is followed is: in output and metrics, also of a value that it has no more."""
    job = f"jobs: {{dflash: {{target: ct200, workdir: {tmp_path}, command: x, secrets: [A]}}}}\n"
    (tmp_path / "inventory.yaml").write_text(INVENTORY + job)
    await fetching._file.refresh(again=True)
    values = tmp_path / "env"
    for value in ("0ld-value", "s3cret-value"):
        values.touch(mode=0o600)
        values.write_text(f"A={value}\n")
        assert fetching._environment.lookup("A") == value
    run = await ended(store, "there:/state", here=(), folder=tmp_path)
    printed(tmp_path, 2, b"login by 0ld-value, by s3cret-value\n", over=True)
    (tmp_path / METRICS_FILE).write_text('{"t": 1.0, "step": 1, "note": "s3cret-value"}\n')
    await fetching.have(replace(run, directory=str(tmp_path)), (2,))
    assert store.logs.read(run.id, 2, 0, 99) == b"login by *********, by ************\n"
    kept = store.metrics.read(run.id, points.WRITTEN, 0, 99)
    assert json.loads(kept)["note"] == "*" * len("s3cret-value")
