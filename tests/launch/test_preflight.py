"""Preflight on this machine: every check at once, each failure with its remedy."""

import dataclasses
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.core.errors import Check, PreflightRefused
from orchestrator.core.model import Host, Job, PreflightPolicy, Run, RunState, Target
from orchestrator.launch.preflight import LastGood, preflight, refusal, require
from orchestrator.probe import procfs
from tests.conftest import TmuxCall
from tests.deploy.caller import NearCaller


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """A job in a working folder of its own."""
    target = Target(name="local", host=Host(name="here", transport="local"), python=sys.executable)
    return Job(
        name="dflash",
        targets=(target,),
        command="true",
        workdir=str(tmp_path / "work"),
        session="dflash",
    )


@pytest.fixture
def run(job: Job) -> Run:
    """A run that has not begun."""
    return Run(
        id="dflash-2",
        uid="u2",
        job="dflash",
        target="local",
        number=2,
        state=RunState.PENDING,
        attempt=1,
        session="dflash",
        directory=f"{job.workdir}/runs/dflash-2.u2",
    )


async def checked(job: Job, run: Run) -> dict[str, Check]:
    """All checks by name."""
    checks = await preflight(NearCaller(), job, run, None, now=time.time())
    return {check.name: check for check in checks}


def with_policy(job: Job, **changes: object) -> Job:
    """The job with another preflight policy."""
    policy = dataclasses.replace(PreflightPolicy(), **changes)  # type: ignore[arg-type]
    return dataclasses.replace(job, preflight=policy)


async def test_a_healthy_target_passes(job: Job, run: Run, tmux: TmuxCall) -> None:
    """All looks were taken, and nothing critical failed."""
    found = await checked(job, run)
    assert set(found) >= {
        "tmux", "session", "processes", "workdir", "disk", "shm", "limits", "clock", "caches",
        "gpus", "python",
    }  # fmt: skip
    assert [check for check in found.values() if check.critical and not check.ok] == []
    require(tuple(found.values()))


async def test_a_live_run_without_its_session_is_no_leftover(
    job: Job, run: Run, tmux: TmuxCall
) -> None:
    """Its run is named, `kill` is not advised, and `stale_processes: stop` leaves it alone."""
    folder = f"{job.workdir}/runs/dflash-1.u1"
    env = {**os.environ, "ORCH_RUN_ID": "dflash-1", "ORCH_RUN_DIR": folder}
    job = with_policy(job, stale_processes="stop")
    with subprocess.Popen(["sleep", "100"], env=env) as child:
        checks = await preflight(NearCaller(), job, run, None, now=time.time(), live=("dflash-1",))
        found = {check.name: check for check in checks}["processes"]
        alive = child.poll() is None
        child.kill()
    assert alive
    assert not found.ok
    assert found.text.startswith("dflash-1 still runs without its tmux session")
    assert found.remedy == "Stop it (orch stop dflash-1), or run with --replace."


async def test_all_that_is_wrong_is_said_at_once(job: Job, run: Run, tmux: TmuxCall) -> None:
    """A foreign session, a full disk, a missing package and a wrong one, each with a remedy."""
    tmux("new-session", "-d", "-s", "dflash", "sleep 100")
    job = with_policy(
        job,
        min_free_disk_bytes=1 << 60,
        packages={"pytest": ">=99", "no-such-package": ">=1", "pathspec": ">=0.1"},
    )
    checks = await preflight(NearCaller(), job, run, None, now=time.time())
    with pytest.raises(PreflightRefused) as refused:
        require(checks)
    assert refused.value.checks == checks
    text = refusal(refused.value.checks)
    assert "a tmux session dflash is there, and orch did not start it" in text
    assert "tmux kill-session -t dflash" in text
    assert "1048576.0 TiB are asked for" in text
    assert f"pytest is {pytest.__version__}, not >=99" in text
    assert "no-such-package is not installed (>=1)" in text
    assert any(check.ok and check.text.startswith("pathspec is ") for check in checks)


@pytest.mark.parametrize(("command", "ok"), [("sleep 100", False), ("true", True)])
async def test_a_session_of_ours_refuses_only_while_it_lives(
    job: Job, run: Run, tmux: TmuxCall, command: str, ok: bool
) -> None:
    """A dead session that any orch launched makes room; a living one names its run."""
    tmux(
        "new-session", "-d", "-s", "dflash", command, ";", "set-option", "-w", "remain-on-exit",
        "on", ";", "set-option", "@orch_run", "dflash-1", ";", "set-option", "@orch_uid", "u1",
    )  # fmt: skip
    deadline = time.monotonic() + 20
    found = await checked(job, run)
    while found["session"].ok is not ok and time.monotonic() < deadline:
        found = await checked(job, run)
    assert found["session"].ok is ok
    assert "dflash-1" in found["session"].text


async def test_a_session_of_another_project_in_the_same_workdir_says_what_to_change(
    job: Job, run: Run, tmux: TmuxCall
) -> None:
    """A run that this daemon does not know stands in the way: one workdir for each project."""
    tmux(
        "new-session", "-d", "-s", "dflash", "sleep 100", ";", "set-option", "@orch_run",
        "dflash-9", ";", "set-option", "@orch_uid", "u9", ";", "set-option", "@orch_attempt",
        f"{job.workdir}/runs/dflash-9.u9/1",
    )  # fmt: skip
    found = (await checked(job, run))["session"]
    assert not found.ok
    assert "another project has the same `workdir`" in found.text
    assert found.remedy is not None
    assert "a `workdir` and a `session` of its own" in found.remedy
    assert "--target TARGET" in found.remedy


@pytest.fixture
def stale(job: Job) -> Iterator[subprocess.Popen[bytes]]:
    """A process of an earlier run that lives on."""
    env = {
        **os.environ,
        "ORCH_RUN_ID": "dflash-1",
        "ORCH_RUN_DIR": f"{job.workdir}/runs/dflash-1.u1",
    }
    process = subprocess.Popen(["sleep", "100"], env=env)
    yield process
    process.kill()
    process.wait()


async def test_stale_processes_refuse_are_ignored_or_are_stopped(
    job: Job, run: Run, tmux: TmuxCall, stale: subprocess.Popen[bytes]
) -> None:
    """As the policy says; they are known by the run in their environment."""
    refused = (await checked(job, run))["processes"]
    assert not refused.ok
    assert f"{stale.pid} (dflash-1: sleep 100)" in refused.text
    assert (await checked(with_policy(job, stale_processes="ignore"), run))["processes"].ok
    assert stale.poll() is None
    stopped = (await checked(with_policy(job, stale_processes="stop"), run))["processes"]
    assert stopped.ok
    assert stale.wait(20) == -15


async def test_nothing_is_stopped_while_another_run_holds_the_session(
    job: Job, run: Run, tmux: TmuxCall, stale: subprocess.Popen[bytes]
) -> None:
    """`stale_processes: stop` must not end a run that is well and alive."""
    tmux(
        "new-session", "-d", "-s", "dflash", "sleep 100", ";", "set-option", "@orch_run",
        "dflash-1", ";", "set-option", "@orch_uid", "u1",
    )  # fmt: skip
    found = await checked(with_policy(job, stale_processes="stop"), run)
    assert not found["session"].ok
    assert not found["processes"].ok
    assert stale.poll() is None
    # Of a run that is known to live none is left over: nobody is told to kill what is well.
    checks = await preflight(NearCaller(), job, run, None, now=time.time(), live=("dflash-1",))
    found = {check.name: check for check in checks}
    assert (found["session"].ok, found["processes"].ok) == (False, True)


async def test_what_hid_from_an_earlier_run_is_known_by_its_exit_record(
    job: Job, run: Run, tmux: TmuxCall
) -> None:
    """It carries nothing of the run; the relay that adopted it wrote down its PID and start."""
    with subprocess.Popen(["sleep", "100"], env={}) as hidden:
        start = procfs.start_time(hidden.pid)
        folder = Path(job.workdir) / "runs" / "dflash-1.other" / "1"
        folder.mkdir(parents=True)
        orphans = [[hidden.pid, start], [hidden.pid, 1], [2**22 - 1, 5]]
        record = {"code": 0, "boot_id": procfs.boot_id(), "orphans": orphans}
        (folder / "exit.json").write_text(json.dumps(record))
        refused = (await checked(job, run))["processes"]
        assert not refused.ok
        assert refused.text == f"1 left of earlier runs: {hidden.pid} (dflash-1: sleep 100)"
        found = await checked(with_policy(job, stale_processes="stop"), run)
        assert found["processes"].ok
        assert hidden.wait(20) == -15


async def test_processes_of_another_state_folder_are_not_ours(
    job: Job, run: Run, tmux: TmuxCall, stale: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    """A namesake in another working folder is left alone."""
    elsewhere = dataclasses.replace(job, workdir=str(tmp_path / "elsewhere"))
    assert (await checked(elsewhere, run))["processes"].ok


async def test_busy_gpus_are_named_with_their_use(
    job: Job, run: Run, tmux: TmuxCall, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Critical where the job asks for idle GPUs, a warning where it does not."""
    tool = tmp_path / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    tool.write_text(
        "#!/bin/sh\n"
        "rest='580.1, 00000000:01:00.0, 700 W, 345 MHz, 3201 MHz, 0x0, 0, 0, Disabled'\n"
        "echo '0, GPU-a, NVIDIA H200, 70000 MiB, 143771 MiB, 99 %, 300 W, 50, '$rest\n"
        "echo '1, GPU-b, NVIDIA H200, 0 MiB, 143771 MiB, 0 %, 80 W, 30, '$rest\n"
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    if shutil.which("nvidia-smi") != str(tool) or os.path.exists("/proc/driver/nvidia"):
        pytest.skip("a real GPU is here")
    found = (await checked(job, run))["gpus"]
    assert (found.ok, found.critical) == (False, False)
    assert found.text == "GPU 0 has 70000 MiB in use by a process not seen from here"
    found = (await checked(with_policy(job, gpus_idle=True), run))["gpus"]
    assert (found.ok, found.critical) == (False, True)


async def test_a_workdir_and_an_interpreter_that_are_not_there(
    job: Job, run: Run, tmux: TmuxCall, tmp_path: Path
) -> None:
    """Both are said, with what to do."""
    (tmp_path / "file").write_text("x")
    target = dataclasses.replace(job.target, python="/no/such/python")
    job = dataclasses.replace(job, targets=(target,), workdir=str(tmp_path / "file" / "work"))
    found = await checked(job, run)
    assert not found["workdir"].ok
    assert "cannot be written: Not a directory" in found["workdir"].text
    assert not found["python"].ok
    assert found["python"].remedy is not None


async def test_a_package_that_drifted_since_the_last_good_run_is_a_warning(
    job: Job, run: Run
) -> None:
    """What the job lists and has another version than in the run that finished is said."""
    job = with_policy(job, packages={"pytest": ">=1", "no-such-package": ">=1"})
    now = time.time()
    good = LastGood(number=1, packages={"pytest": "0.1", "no-such-package": "7.0"})
    checks = await preflight(NearCaller(), job, run, None, now=now, good=good)
    drift = [check for check in checks if check.name == "drift"]
    assert [check.critical for check in drift] == [False, False]
    assert drift[0].text == "no-such-package is gone; run 1, the last that finished, had 7.0"
    assert "had 0.1" in drift[1].text
    version = importlib.metadata.version("pytest")
    good = LastGood(number=1, packages={"pytest": version})
    checks = await preflight(NearCaller(), job, run, None, now=now, good=good)
    assert not [check for check in checks if check.name == "drift"]


async def test_a_cold_compile_cache_is_announced(job: Job, run: Run, tmp_path: Path) -> None:
    """With no kernel in the cache folder that is said before the launch, and refuses nothing."""
    cache = tmp_path / "cache"
    job = dataclasses.replace(job, env={"TORCHINDUCTOR_CACHE_DIR": str(cache)})
    cold = (await checked(job, run))["cold_cache"]
    assert not cold.ok
    assert not cold.critical
    assert f"no compiled kernels in {cache}" in cold.text
    (cache / "ab").mkdir()
    (cache / "ab" / "kernel.so").write_bytes(b"x")
    assert "cold_cache" not in await checked(job, run)
