"""py-spy goes to a target beside the link that its runs are watched by."""

import asyncio
import contextlib
import os
import platform
from pathlib import Path

import pytest

from orchestrator.clock import SystemClock
from orchestrator.core.model import Host, Target
from orchestrator.link.ends import Here
from orchestrator.link.link import Link
from orchestrator.observe import stacks
from orchestrator.probe import procfs
from orchestrator.probe.frames import BULK
from orchestrator.transport.pool import Pool
from tests.link.fakes import until

HERE = Target(name="here", host=Host(name="here", transport="local"))


async def test_py_spy_comes_over_a_probe_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn that it held was one of the daemon's own probe, which lives for weeks."""
    if stacks.py_spy_here() is None:
        pytest.skip("py-spy is not installed here")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    key = f"test-stacks-{os.getpid()}"
    place = str(tmp_path / "tools" / "py-spy")
    found = {"py_spy": None, "machine": platform.machine(), "tools": str(tmp_path / "tools")}
    assert (await Here().call("copy_hold", timeout_s=5, path=place))["held"]

    def has_its_own() -> bool:
        return any(
            word.startswith(f"{key}{BULK}")
            for one in procfs.every()
            for word in procfs.command_line(one.pid).split()
        )

    async with contextlib.AsyncExitStack() as opened:
        pool = Pool()
        opened.push_async_callback(pool.close)
        link = Link(HERE, pool.transport(HERE), SystemClock(), key)
        opened.push_async_callback(link.close)
        await link.start()
        shipping = asyncio.create_task(stacks._ship(link, found))
        opened.callback(shipping.cancel)
        await until(has_its_own)
        await Here().call("copy_let_go", timeout_s=5, path=place)
        async with asyncio.timeout(30):
            assert await shipping
        assert os.access(place, os.X_OK)
        await until(lambda: not has_its_own())


async def test_a_second_connection_that_is_refused_costs_the_stacks_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The link that runs are watched by is there: the evidence was asked for over and over."""
    monkeypatch.setattr(stacks, "py_spy_here", lambda: Path(os.devnull))
    found = {"py_spy": None, "machine": platform.machine(), "tools": "/nowhere"}
    async with contextlib.AsyncExitStack() as opened:
        pool = Pool()
        opened.push_async_callback(pool.close)
        host = Host(name="away", hostname="127.0.0.1", port=1)
        target = Target(name="away", host=host)
        link = Link(target, pool.transport(target), SystemClock(), "test-stacks-away")
        opened.push_async_callback(link.close)
        async with asyncio.timeout(30):
            assert await stacks._ship(link, found) is False
