"""What a setup prints, however much and in whatever lines, and two setups side by side."""

import asyncio
import dataclasses
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from orchestrator.core.errors import DeployError
from orchestrator.core.model import Job, Setup
from orchestrator.deploy import plan as plans
from orchestrator.deploy import release
from orchestrator.deploy.bundle import collect
from orchestrator.deploy.hashes import HashCache
from orchestrator.deploy.release import DeployProgress
from orchestrator.probe.frames import MAX_FRAME_BYTES

from .caller import NearCaller
from .quick_uv import python_beside_uv

MOST_OF_A_SENTENCE = 4000
"""What the daemon takes of one that a probe says (calls.py)."""


@pytest.fixture
def job(job: Job, tmp_path: Path) -> Job:
    """A job whose environment is an empty folder, made by a uv that knows no more."""
    target = dataclasses.replace(job.target, python=python_beside_uv(tmp_path / "bin"))
    return dataclasses.replace(job, targets=(target,))


async def lines_of(caller: NearCaller, job: Job, *run: str, workdir: str = "") -> list[str]:
    """What is told of a setup of these commands."""
    job = dataclasses.replace(job, setup=Setup(run=run), workdir=workdir or job.workdir)
    cache = HashCache(Path(job.workdir).parent / "hashes.json")
    bundle = collect(job, cache=cache, now=time.time())
    plan = await plans.plan(caller, job, bundle)
    news: list[DeployProgress] = []
    await release.deploy(caller, job, bundle, plan, news.append)
    return [one.line for one in news if one.stage == "setup"]


async def test_a_line_without_end_is_told_in_parts(
    caller: NearCaller, job: Job, workdir: Path
) -> None:
    """It was one frame, larger than the daemon takes, and cost the whole link."""
    size = MAX_FRAME_BYTES + 1000
    told = await lines_of(caller, job, f"head -c {size} /dev/zero | tr '\\0' x; echo; echo over")
    assert max(map(len, told)) < MAX_FRAME_BYTES / 100
    log = next((workdir / "env").glob("*.log")).read_bytes()
    assert log.count(b"x") >= size
    assert "over" in told or "more lines are in" in told[-1]


async def test_a_flood_is_told_in_part_and_kept_whole(
    caller: NearCaller, job: Job, workdir: Path
) -> None:
    """The daemon has other runs to look at; how many lines were passed over is said."""
    told = await lines_of(caller, job, "seq 100000")
    log = next((workdir / "env").glob("*.log"))
    assert log.read_text().endswith("\n99999\n100000\n")
    assert len(told) < 50_000
    passed_over = [line for line in told if line.endswith(f"more lines are in {log})")]
    assert passed_over
    unsaid = sum(int(line[1:].split()[0]) for line in passed_over)
    assert len(told) - len(passed_over) + unsaid == len(log.read_text().splitlines())


async def test_a_flood_of_long_lines_is_told_in_part(
    caller: NearCaller, job: Job, workdir: Path
) -> None:
    """Five hundred lines of sixteen kilobytes a second were eight megabytes for the daemon."""
    begun = time.monotonic()
    told = await lines_of(caller, job, "yes $(head -c 16000 /dev/zero | tr '\\0' x) | head -n 300")
    seconds = time.monotonic() - begun
    log = next((workdir / "env").glob("*.log"))
    assert log.stat().st_size > 300 * 16000
    assert sum(map(len, told)) < (seconds + 2) * 300 * 1024
    assert any("more lines are in" in line for line in told)


async def test_a_long_command_leaves_room_for_why_it_failed(caller: NearCaller, job: Job) -> None:
    """A script under `run:` was given whole, and the reason behind it was cut off."""
    script = f"echo the rea''son; : {'x' * 5000}; exit 1"
    with pytest.raises(DeployError) as failed:
        await lines_of(caller, job, script)
    assert "the reason" in failed.value.message[:MOST_OF_A_SENTENCE]


async def test_what_a_setup_of_an_older_orch_left_running_is_ended(
    caller: NearCaller, job: Job, tmp_path: Path
) -> None:
    """It bears the bare digest, as does one of another workdir, which is let be."""
    await lines_of(caller, job, "true")
    digest = next((Path(job.workdir) / "env").glob("*.log")).stem
    again = tmp_path / "again"
    bare = {**os.environ, "ORCH_SETUP": digest}
    ours = {**bare, "VIRTUAL_ENV": str(again / "env" / digest)}
    other = {**bare, "VIRTUAL_ENV": str(tmp_path / "other" / "env" / digest)}
    sleep = ["sleep", "100"]
    with subprocess.Popen(sleep, env=ours) as orphan, subprocess.Popen(sleep, env=other) as living:
        try:
            await lines_of(caller, job, "true", workdir=str(again))
            assert await asyncio.to_thread(orphan.wait, 10) == -signal.SIGKILL
            assert living.poll() is None
        finally:
            orphan.kill()
            living.kill()


async def test_the_end_of_long_lines_is_in_the_error(caller: NearCaller, job: Job) -> None:
    """The last line says why it failed; the sentence was cut before it came."""
    many = "for n in 1 2 3 4 5 6 7 8 9; do printf '%0900d\\n' $n; done; echo the rea''son; exit 1"
    with pytest.raises(DeployError) as failed:
        await lines_of(caller, job, many)
    assert "the reason" in failed.value.message[:MOST_OF_A_SENTENCE]
    assert failed.value.message.startswith("setup failed: ")


async def test_two_workdirs_are_set_up_side_by_side(
    caller: NearCaller, job: Job, tmp_path: Path
) -> None:
    """Two jobs with one package have one environment's name; the second ended the first's setup."""
    begun = tmp_path / "begun"
    run = f"echo x >> {begun}; while [ $(wc -l < {begun}) -lt 2 ]; do sleep 0.05; done; echo over"
    folders = [tmp_path / "there" / "one", tmp_path / "there" / "two"]
    tmp_path.joinpath("there").mkdir()
    both = [lines_of(caller, job, run, workdir=str(folder)) for folder in folders]
    async with asyncio.timeout(30):
        told = await asyncio.gather(*both)
    assert [lines[-1] for lines in told] == ["over", "over"]
