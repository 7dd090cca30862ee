"""What an attempt's program is given."""

import dataclasses
import subprocess

import pytest

from orchestrator.core.model import Host, Job, Release, Run, RunState, Setup, Target
from orchestrator.launch.configuration import asked
from orchestrator.launch.session import attempt_dir, command_argv, launch_spec

TARGET = Target(name="local", host=Host(name="here", transport="local"))
JOB = Job(
    name="dflash",
    targets=(TARGET,),
    command="python3 -m trainer --config a.toml",
    workdir="/srv/dflash",
    session="dflash",
    env={"A": "job", "B": "job", "C": "job"},
    secrets=("C",),
)
RUN = Run(
    id="dflash-3",
    uid="k7",
    job="dflash",
    target="local",
    number=3,
    state=RunState.STARTING,
    attempt=2,
    session="dflash",
    directory="/srv/dflash/runs/dflash-3.k7",
    env={"B": "run"},
    args=("--set", "a=b c"),
)
RELEASE = Release(digest="cafe", path="/srv/dflash/releases/cafe/trainer")


def test_a_spec_is_whole() -> None:
    """Every key of the wire, the release as working folder, its parent first to import from."""
    assert launch_spec(JOB, RUN, RELEASE, {"C": "secret"}) == {
        "run": "dflash-3",
        "uid": "k7",
        "attempt": 2,
        "run_dir": "/srv/dflash/runs/dflash-3.k7",
        "attempt_dir": attempt_dir(RUN),
        "session": "dflash",
        "socket": None,
        "argv": ["sh", "-c", "exec python3 -m trainer --config a.toml --set 'a=b c'"],
        "env": {"A": "job", "B": "run", "C": "secret"},
        "asked": asked(RUN, {}),
        "cwd": "/srv/dflash/releases/cafe/trainer",
        "path_first": [],
        "python_path": ["/srv/dflash/releases/cafe"],
    }


def test_a_relay_is_handed_whom_it_may_alert_itself() -> None:
    """With the labels of a bad end, and the names of the secrets that its last lines may hold."""
    sinks = [{"name": "ops", "url": "http://127.0.0.1/", "keys": ["aa"], "format": "alertmanager"}]
    own = launch_spec(
        dataclasses.replace(JOB, secrets=("C",)), RUN, RELEASE, {"C": "secret"}, sinks
    )["own_alert"]
    assert (own["within_s"], own["secrets"], own["sinks"]) == (60.0, ["C"], sinks)
    assert own["id"] == "dflash-3.k7.2-end"
    assert own["labels"]["run"] == "dflash-3"
    assert own["labels"]["attempt"] == "2"


def test_the_environment_of_setup_comes_before_the_targets_interpreter() -> None:
    """`python3` is the release's own where there is a setup, else the target's."""
    target = dataclasses.replace(TARGET, python="/opt/venv/bin/python")
    job = dataclasses.replace(JOB, targets=(target,))
    assert launch_spec(job, RUN, RELEASE, {})["path_first"] == ["/opt/venv/bin"]
    job = dataclasses.replace(job, setup=Setup())
    assert launch_spec(job, RUN, RELEASE, {})["path_first"] == [
        "/srv/dflash/releases/cafe/trainer/.venv/bin",
        "/opt/venv/bin",
    ]


def test_without_a_release_the_job_runs_in_its_workdir() -> None:
    """Nothing was shipped, so nothing is put before what is there."""
    spec = launch_spec(JOB, RUN, None, {})
    assert (spec["cwd"], spec["python_path"]) == ("/srv/dflash", [])


@pytest.mark.parametrize("word", ["a b", "it's", '"', "$HOME", "`id`", "a\nb", "\\", "*", "", "!"])
def test_extra_words_arrive_as_they_are(word: str) -> None:
    """In a string command and in a list alike; a list's own words are never read by a shell."""
    for command in ("printf '%s|'", ("printf", "%s|")):
        argv = command_argv(command, ("x", word))
        said = subprocess.run(argv, capture_output=True, text=True, check=True)
        assert said.stdout == f"x|{word}|"
