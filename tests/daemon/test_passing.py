"""Requests between two daemons on a real PostgreSQL, where something goes wrong on the way."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from orchestrator.api.forwarding import Asked
from orchestrator.clock import SystemClock
from orchestrator.core.errors import DaemonError
from orchestrator.core.inventory.build import parse_inventory
from orchestrator.daemon.leasing import Leasing
from orchestrator.daemon.passing import Passing
from orchestrator.store import Store
from orchestrator.store.requests import Request
from tests.lab.postgres import Postgres

pytestmark = pytest.mark.xdist_group("pg")

INVENTORY = b"""
version: 1
hosts: {pve1: {hostname: 192.0.2.1}}
targets: {ct200: {host: pve1}}
jobs: {dflash: {target: ct200, workdir: /nowhere, command: sleep 1}}
"""
LOG = Asked("GET", "/v1/runs/dflash-1/log", b"", "ann")
WITHIN_S = 30.0


@pytest.fixture
def url(postgres: Postgres) -> str:
    """An empty database."""
    return postgres.database()


async def _log(request: web.Request) -> web.StreamResponse:
    """Twenty-five parts, so that some of them have to wait for room."""
    response = web.StreamResponse()
    await response.prepare(request)
    for number in range(25):
        await response.write(b"part %d\n" % number)
        await asyncio.sleep(0.01)
    return response


async def _follow(request: web.Request) -> web.StreamResponse:
    """A line now and then, for as long as somebody listens."""
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b"line\n")
        await asyncio.sleep(0.05)


async def _cut(request: web.Request) -> web.StreamResponse:
    """A daemon that dies in the middle of an answer."""
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b"half of it\n")
    assert request.transport is not None
    request.transport.abort()
    return response


async def _done(request: web.Request) -> web.Response:
    """A daemon does whatever it is asked."""
    return web.Response(text=f"done: {request.path}")


@pytest.fixture
async def server(short_folder: Path) -> AsyncIterator[Path]:
    """The socket of the driver's daemon."""
    app = web.Application()
    app.router.add_get("/v1/runs/dflash-1/log", _log)
    app.router.add_get("/v1/runs/dflash-1/follow", _follow)
    app.router.add_get("/v1/runs/dflash-2/log", _cut)
    app.router.add_get("/{path:.*}", _done)
    runner = web.AppRunner(app)
    await runner.setup()
    path = short_folder / "daemon.sock"
    await web.UnixSite(runner, str(path)).start()
    yield path
    await runner.cleanup()


@asynccontextmanager
async def daemon(
    url: str, folder: Path, server: Path
) -> AsyncIterator[tuple[Store, Leasing, Passing]]:
    """What one daemon has for it; its leases are turned once."""
    inventory = parse_inventory(
        INVENTORY, path="i.yaml", folder="/", exists=lambda _: True, home="/root"
    )
    clock = SystemClock()
    store = await Store.open(folder, clock, url)
    leasing = Leasing(store.leases, clock, lambda: inventory, {"inventory": str(folder)})
    await leasing.begin()
    turning = asyncio.create_task(leasing.run())
    passing = Passing(store.requests, leasing, clock, server)
    answering = asyncio.create_task(passing.run())
    try:
        yield store, leasing, passing
        assert not answering.done(), "it answers nobody any more"
    finally:
        turning.cancel()
        answering.cancel()
        await asyncio.gather(turning, answering, return_exceptions=True)
        await store.close()


Pair = tuple[Store, Passing]


@pytest.fixture
async def pair(url: str, tmp_path: Path, server: Path) -> AsyncIterator[Pair]:
    """The driver's store, and the passing of the one that asks."""
    async with AsyncExitStack() as stack:
        driver, leasing, _ = await stack.enter_async_context(daemon(url, tmp_path / "a", server))
        assert leasing.drives("pve1")
        *_, passing = await stack.enter_async_context(daemon(url, tmp_path / "b", server))
        yield driver, passing


async def whole(passing: Passing, asked: Asked) -> bytes:
    """All of an answer's body."""
    found = b""
    async with asyncio.timeout(WITHIN_S), aclosing(passing.ask("pve1", asked)) as parts:
        await anext(parts)
        async for part in parts:
            found += part
    return found


async def test_an_answer_of_many_parts_is_had_whole(pair: Pair) -> None:
    """More than may lie unread at once: what was read makes room for the rest."""
    _, passing = pair
    lines = (await whole(passing, LOG)).splitlines()
    assert lines == [b"part %d" % number for number in range(25)]


async def test_an_answer_that_dies_is_said_and_the_next_is_had(pair: Pair) -> None:
    """A connection that is cut in the middle leaves nobody waiting."""
    _, passing = pair
    with pytest.raises(DaemonError, match="did not end its answer"):
        await whole(passing, LOG._replace(path="/v1/runs/dflash-2/log"))
    assert await whole(passing, LOG)


async def test_a_request_that_cannot_be_sent_ends_no_other(pair: Pair) -> None:
    """A name with a newline, which no header may have: its asker is told, others are answered."""
    _, passing = pair
    with pytest.raises(DaemonError, match="did not end its answer"):
        await whole(passing, LOG._replace(by="eve\n"))
    assert await whole(passing, LOG)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/daemon/stop",
        "/v1/runs/dflash-1/run",
        "/v1/runs/dflash-1/log/../../../daemon/stop",
        "/v1/runs/dflash-1/log/x",
    ],
)
async def test_what_daemons_do_not_ask_of_each_other_is_not_done(pair: Pair, path: str) -> None:
    """Whoever writes to the database can ask for it: a person's commands, or a path that winds."""
    _, passing = pair
    with pytest.raises(DaemonError, match="did not end its answer"):
        await whole(passing, LOG._replace(path=path))
    assert await whole(passing, LOG)


async def test_who_is_thought_to_be_gone_is_told(pair: Pair, postgres: Postgres, url: str) -> None:
    """Whoever reads on after the driver gave its asker up gets an error, and does not hang."""
    _, passing = pair
    asked = LOG._replace(path="/v1/runs/dflash-1/follow")
    async with asyncio.timeout(WITHIN_S), aclosing(passing.ask("pve1", asked)) as parts:
        await anext(parts)
        while postgres.query(url, "SELECT state FROM requests") != ["broken"]:
            postgres.query(url, "UPDATE requests SET wanted_until = extract(epoch from now())")
            await asyncio.sleep(0.2)
        with pytest.raises(DaemonError, match="did not end its answer"):
            async for _ in parts:
                pass


async def test_who_reads_slowly_is_wanted(pair: Pair, postgres: Postgres, url: str) -> None:
    """A client that takes nothing for a while: its daemon says that somebody waits for the rest."""
    _, passing = pair
    until = "SELECT wanted_until FROM requests"
    async with asyncio.timeout(WITHIN_S), aclosing(passing.ask("pve1", LOG)) as parts:
        await anext(parts)
        said = postgres.query(url, until)
        while postgres.query(url, until) == said:
            await asyncio.sleep(0.2)
        assert [part async for part in parts][-1].endswith(b"part 24\n")


async def test_what_was_taken_in_a_call_without_an_answer_is_done(
    pair: Pair, postgres: Postgres, url: str
) -> None:
    """A connection that is cut at the end of a transaction: the request is ours, and nobody's."""
    driver, _ = pair
    assert driver.requests is not None
    assert driver.leases is not None
    request = Request(id="lost", host="pve1", **LOG._asdict())
    await driver.requests.ask(replace(request, host="elsewhere"))
    taken = f"UPDATE requests SET state = 'taken', taker = '{driver.leases.owner}', host = 'pve1'"
    postgres.query(url, taken)
    async with asyncio.timeout(WITHIN_S):
        while not (await driver.requests.read("lost", 0)).parts:
            await asyncio.sleep(0.1)
