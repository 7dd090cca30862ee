"""The output of a run that another daemon saw end: fetched from the target, or said where it is."""

import os
import shutil
import signal
import tarfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import MakeOrch, Orch, local_job
from tests.acceptance.fleet import SLACK_S, TAKEN_OVER_WITHIN_S, client, is_driver, lines, three
from tests.lab.postgres import Postgres

pytestmark = [pytest.mark.xdist_group("pg"), pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture
def succeeded(
    make_orch: MakeOrch,
    postgres: Postgres,
    short_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Orch:
    """The daemon that took over from one that was killed after its two runs had ended."""
    first, second, _ = three(make_orch, postgres, short_folder, monkeypatch)
    for orch in (first, second):
        orch("daemon", "start")
    for run in ("dflash-1", "dflash-2"):
        first("run", "--detach")
        first.until(partial(has_output, first, run))
        (short_folder / "finish").touch()
        first("wait", run)
        (short_folder / "finish").unlink()
    os.kill(first.json("daemon", "status")["pid"], signal.SIGKILL)
    second.until(lambda: is_driver(second), timeout_s=TAKEN_OVER_WITHIN_S + SLACK_S)
    return second


def has_output(orch: Orch, run: str) -> bool:
    """Whether a few lines of it are stored."""
    return lines(orch, run) > 2000


def test_what_is_still_on_the_target_comes_whole(succeeded: Orch) -> None:
    """`show` says where it is; `logs` and a bundle have every byte, the metrics too."""
    for run in ("dflash-1", "dflash-2"):
        shown = succeeded.json("show", run)
        assert shown["log_bytes"] == 0
        assert "/orch/" in shown["log_at"]
        assert f"the rest is at {shown['log_at']}" in succeeded("show", run).stdout
        written = (Path(shown["directory"]) / "attempt-1" / "output.log").read_bytes()
        assert client(succeeded).log(run).content == written
        after = succeeded.json("show", run)
        assert (after["log_bytes"], after.get("log_at")) == (len(written), None)
    assert bundled(succeeded, "dflash-2")["log/attempt-1-tail.txt"].endswith("end\r\n")


def test_what_patterns_find_is_found_in_what_is_fetched(succeeded: Orch) -> None:
    """The numbers of a plot, which the daemon that saw the run end had in its own files."""
    told = client(succeeded).get("/v1/runs/dflash-1/metrics")["metrics"]
    steps = [one["step"] for one in told]
    assert steps == list(range(1, len(steps) + 1))
    assert len(steps) > 5
    assert {one["half"] for one in told} == {one / 2 for one in steps}
    again = client(succeeded).get("/v1/runs/dflash-1/metrics")["metrics"]
    assert again == told


def test_what_is_gone_is_said_with_its_place(succeeded: Orch) -> None:
    """The run's folder was removed: a sentence that names the daemon which has the output."""
    shown = succeeded.json("show", "dflash-1")
    shutil.rmtree(shown["directory"])
    said = succeeded("logs", "dflash-1", check=1).stderr
    assert "another daemon saw it end on local, where it is no more" in said
    assert f"That daemon has it: {shown['log_at']}" in said
    assert shown["log_at"] in bundled(succeeded, "dflash-1")["log/missing.txt"]


def test_an_attempt_that_ended_before_the_succession_comes_too(
    make_orch: MakeOrch, postgres: Postgres, short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who took a run over in its back-off, and saw its end, has the output of both attempts."""
    monkeypatch.setenv("ORCH_STORE", postgres.database())
    restart = "    restart: {on: [infra], max_attempts: 3, within: 1h, backoff: 20s}\n"
    text = local_job(short_folder, "python3 -m played infra --fail 1", restart)
    first, second = make_orch(text), make_orch(text)
    for orch in (first, second):
        orch("daemon", "start")
    run = first.json("run", "--detach")["run"]
    first.until(lambda: first.json("show", run)["state"] == "backoff")
    os.kill(first.json("daemon", "status")["pid"], signal.SIGKILL)
    second.until(lambda: second.json("show", run)["state"] == "finished", timeout_s=90.0)
    shown = second.json("show", run)
    assert shown["attempt"] == 2
    for attempt in (1, 2):
        written = (Path(shown["directory"]) / f"attempt-{attempt}" / "output.log").read_bytes()
        assert written
        assert client(second).log(run, attempt=attempt).content == written


def bundled(orch: Orch, run: str) -> dict[str, Any]:
    """The texts of a run's bundle, by name within it."""
    path = orch.folder / f"{run}.tar.gz"
    orch("bundle", run, "-o", str(path))
    with tarfile.open(path) as archive:
        files = {one.name.partition("/")[2]: archive.extractfile(one) for one in archive}
        return {name: file.read().decode() for name, file in files.items() if file is not None}
