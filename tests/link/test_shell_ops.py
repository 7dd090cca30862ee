"""What the plain shell refuses: one sentence that names what lacks."""

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from orchestrator.core.adhoc import find_target
from orchestrator.link.calls import CallFailed
from orchestrator.link.shell_ops import ShellOps
from orchestrator.probe.run_folders import OPS
from orchestrator.transport.base import Transport
from orchestrator.transport.local import LocalTransport


@pytest.mark.parametrize(
    ("python", "said"),
    [("/opt/none/python", "`python: /opt/none/python` is none"), (None, "which has none")],
)
async def test_who_named_an_interpreter_is_told_of_it(python: str | None, said: str) -> None:
    """A wrong `python:` is named, since a target may well have another Python."""
    target = replace(find_target("local", None, ()), python=python)
    never_asked = cast("Transport", None)
    with pytest.raises(CallFailed, match=said):
        await ShellOps(target, never_asked).do("release_offer", {})


async def test_highest_number_of_a_jobs_runs(tmp_path: Path) -> None:
    """Of this job alone, and 0 where there is no folder of runs yet."""
    ops = ShellOps(find_target("local", None, ()), LocalTransport("local"))
    asked = {"workdir": str(tmp_path), "job": "a"}
    assert await ops.do("runs_highest", asked) == {"number": 0}
    for name in ("a-2.u", "a-10.v", "a-b-11.w", "b-12.x", "a-13"):
        (tmp_path / "runs" / name).mkdir(parents=True)
    assert await ops.do("runs_highest", asked) == {"number": 10}
    assert OPS["runs_highest"](asked, lambda _: None) == {"number": 10}


async def test_records_of_runs_are_those_that_a_probe_finds(tmp_path: Path) -> None:
    """By name, in order; what is no record, or a link in the place of one, is none."""
    runs = tmp_path / "runs"
    for number in (1, 2, 10):
        folder = runs / "a-1.u" / f"attempt-{number}"
        folder.mkdir(parents=True)
        (folder / "attempt.json").write_text(f'{{"started_at":\n{number}, "session": "a b"}}\n')
    (runs / "a-1.u" / "attempt-1" / "exit.json").write_text('{"code": 1, "signal": null}')
    (runs / "a-1.u" / "attempt-2" / "exit.json").write_text('{"code": 1, "sig')
    (runs / "a-1.u" / "attempt-10" / "exit.json").symlink_to("/etc/passwd")
    (runs / "a-2.u" / "attempt-1").mkdir(parents=True)
    (runs / "b-1.u" / "attempt-1").mkdir(parents=True)
    (runs / "b-1.u" / "attempt-1" / "attempt.json").write_text("{}")
    ops = ShellOps(find_target("local", None, ()), LocalTransport("local"))
    asked = {"workdir": str(tmp_path), "names": ["a-1.u", "a-2.u", "none-1.u"]}
    found = await ops.do("runs_known", asked)
    (run,) = found["runs"]
    assert run["name"] == "a-1.u"
    assert [one["number"] for one in run["attempts"]] == [1, 2, 10]
    assert [one["exit"] for one in run["attempts"]] == [{"code": 1, "signal": None}, None, None]
    assert found == OPS["runs_known"](asked, lambda _: None)
