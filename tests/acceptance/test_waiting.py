"""`orch wait` for what an agent waits for: answered when it happens, by a real daemon."""

from pathlib import Path

from tests.acceptance.conftest import MakeOrch, local_job


def test_phase_and_metric_are_waited_for(make_orch: MakeOrch, short_folder: Path) -> None:
    """A phase, a loss below a bound and a step above one are reached while the run lives."""
    orch = make_orch(local_job(short_folder, "python3 -m played steps --count 0"))
    run = orch.json("run", "--detach")["run"]
    for until, said in (("phase:train", "phase train"), ("loss<8", "loss is"), ("step>3", "step")):
        told = orch.json("wait", run, "--until", until, "--timeout", "50")
        assert (told["reached"], told["run"]["state"]) == (True, "running")
        assert told["reason"].startswith(said)
    assert orch("wait", run, "--until", "loss<0", "--timeout", "1", check=124).returncode == 124
    orch("stop", run)
    assert orch.json("wait", run, "--until", "loss<0", check=103)["reached"] is False


def test_incident_is_waited_for_of_a_run_and_of_any(
    make_orch: MakeOrch, short_folder: Path
) -> None:
    """Who waits hears of it, with the incident; an acknowledged one counts no more."""
    orch = make_orch(local_job(short_folder, "python3 -m played sigkill_self"))
    orch("daemon", "start")
    waiting = orch.start("wait", "--until", "incident", "--timeout", "60", "--json")
    orch("run", check=100)
    out, _ = waiting.communicate(timeout=60)
    assert waiting.returncode == 0, out
    told = orch.json("wait", "@1", "--until", "incident")
    assert (told["reached"], told["incident"]["run"]) == (True, "dflash-1")
    assert told["incident"]["id"] in out
    orch("ack", told["incident"]["id"])
    assert orch.json("wait", "@1", "--until", "incident", check=100)["reached"] is False
    orch("wait", "--until", "incident", "--timeout", "1", check=124)
