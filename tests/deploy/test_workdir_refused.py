"""A working folder that cannot be: the sentence says what to change."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.core.errors import DeployError
from orchestrator.core.model import Job
from orchestrator.deploy import plan as plans
from orchestrator.deploy.bundle import collect
from orchestrator.deploy.hashes import HashCache

from .caller import NearCaller


async def test_a_workdir_below_a_file_names_the_key(
    caller: NearCaller, job: Job, tmp_path: Path
) -> None:
    """Whatever the system refuses, the remedy names the job's `workdir`."""
    (tmp_path / "file").touch()
    wrong = replace(job, workdir=str(tmp_path / "file" / "work"))
    bundle = collect(wrong, cache=HashCache(tmp_path / "hashes.json"), now=time.time())
    with pytest.raises(DeployError, match="Look at the job's `workdir`"):
        await plans.plan(caller, wrong, bundle)
