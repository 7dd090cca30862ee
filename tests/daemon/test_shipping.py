"""A deploy whose reader is gone ends, however much it had to say."""

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from orchestrator.clock import SystemClock
from orchestrator.core.model import Host, Job, Setup, Target
from orchestrator.daemon import shipping
from orchestrator.deploy import plan as plans
from orchestrator.deploy.ahead import Ahead
from orchestrator.deploy.bundle import collect
from orchestrator.deploy.hashes import HashCache
from tests.deploy.caller import NearCaller
from tests.deploy.quick_uv import python_beside_uv


def a_job(folder: Path, *run: str) -> Job:
    """A job whose setup runs these commands, in an environment that costs nothing to make."""
    python = python_beside_uv(folder / "bin")
    (folder / "played").mkdir()
    (folder / "played" / "one.py").touch()
    here = Host(name="here", transport="local")
    return Job(
        name="dflash",
        targets=(Target(name="local", host=here, python=python),),
        command="sleep 1",
        workdir=str(folder / "there"),
        package=str(folder / "played"),
        session="dflash",
        setup=Setup(run=run),
    )


async def test_news_that_nobody_takes_do_not_keep_a_deploy_from_ending(tmp_path: Path) -> None:
    """Its last word waited for room in a queue that nobody would read, for ever."""
    over = tmp_path / "over"
    flood = f"for n in 1 2 3 4; do seq 500; sleep 1; done; touch {over}; exec sleep 3"
    job, caller = a_job(tmp_path, flood), NearCaller()
    bundle = collect(job, cache=HashCache(tmp_path / "hashes.json"), now=time.time())
    plan = await plans.plan(caller, job, bundle)
    parts: Any = SimpleNamespace(
        clock=SystemClock(),
        fleet=SimpleNamespace(link=lambda _target: caller),
        inventory=SimpleNamespace(digest="0"),
        location=SimpleNamespace(state_folder=tmp_path / "state"),
        packages=SimpleNamespace(deployed={}),
    )
    planned = shipping.Planned(job=job, bundle=bundle, plan=plan)
    async with Ahead() as ahead:
        news = shipping.deploy_job(parts, [planned], ahead)
        assert (await anext(news))["kind"] in {"progress", "setup"}
        async with asyncio.timeout(60):
            while not over.exists():
                await asyncio.sleep(0.05)
        async with asyncio.timeout(20):
            await news.aclose()
