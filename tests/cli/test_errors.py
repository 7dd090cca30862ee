"""Every failure is one sentence with its remedy, and its own exit code."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

from orchestrator.api.location import locate
from orchestrator.core.errors import OrchError
from tests.cli.canned import CannedBackend
from tests.cli.conftest import Ran

Orch = Callable[..., Ran]


def test_no_such_run_is_102(canned: CannedBackend, orch: Orch) -> None:
    """A RUN that names nothing has a code of its own, in every command that takes one."""
    for words in (("show",), ("logs",), ("wait",), ("stop",), ("logs", "-f"), ("explain",)):
        ran = orch(*words, "nope")
        assert ran.code == 102, words
        assert ran.err.startswith("orch: There is no run nope. `orch ps -a` lists them all.")


def test_errors_keep_the_daemons_exit_code(canned: CannedBackend, orch: Orch) -> None:
    """What the daemon says of its own failure is what the command ends with."""
    canned.raises["runs"] = OrchError("The disk is full.", remedy="Free some.")
    ran = orch("ps")
    assert (ran.code, ran.err) == (1, "orch: The disk is full. Free some.\n")


def test_words_behind_two_dashes_are_names_where_no_program_is_run(
    canned: CannedBackend, orch: Orch
) -> None:
    """`orch show -- RUN` is what a careful script writes."""
    ran = orch("show", "--", "nope")
    assert (ran.code, ran.err.partition(".")[0]) == (102, "orch: There is no run nope")
    assert orch("show", "--json", "--", "nope").code == 102
    assert orch("ps", "--", "more").code == 2


def test_misspelt_command_names_the_nearest(orch: Orch) -> None:
    """Usage is 2, with the word that was probably meant."""
    ran = orch("statsu")
    assert ran.code == 2
    assert "there is no command 'statsu'; did you mean status?" in ran.err


@pytest.mark.parametrize(
    "words",
    [
        ("show",),
        ("daemon",),
        ("daemon", "dance"),
        ("wait", "@1", "--timeout", "soon"),
        ("run", "--env", "novalue"),
        ("run", "--env", "A B=x"),
        ("run", "--env", "1A=x"),
        ("ps", "--", "x"),
        ("ps", "--jsn"),
        ("exec", "ct200"),
    ],
)
def test_wrong_words_are_2(words: tuple[str, ...], orch: Orch, project: Path) -> None:
    """Nothing is guessed from wrong words, and no daemon is started for them."""
    ran = orch(*words)
    assert ran.code == 2
    assert ran.err
    assert not (locate(project / "inventory.yaml", os.environ)).state_folder.exists()


def test_no_inventory_is_2_and_says_where_it_looked(
    orch: Orch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outside a project the sentence names the folder and the option."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ORCH_CONFIG", raising=False)
    ran = orch("ps")
    assert ran.code == 2
    assert f"No inventory.yaml in {tmp_path} or any folder above it." in ran.err


def test_status_of_no_daemon_is_1_and_starts_none(orch: Orch, project: Path) -> None:
    """`daemon status` without a daemon says so, in a document that scripts know."""
    location = locate(project / "inventory.yaml", os.environ)
    ran = orch("daemon", "status", "--json")
    assert ran.code == 1
    expected = {"running": False, "pid": None, "socket": str(location.socket)}
    assert json.loads(ran.out) == expected
    assert orch("daemon", "status").out.startswith("no daemon runs; `orch daemon start`")
    assert not location.state_folder.exists()


def test_stopping_no_daemon_is_no_error(orch: Orch, project: Path) -> None:
    """`daemon stop` wants it gone, and gone it is."""
    ran = orch("daemon", "stop")
    assert (ran.code, ran.out) == (0, "no daemon was running\n")


def test_all_daemons_are_listed_dead_ones_too(canned: CannedBackend, orch: Orch) -> None:
    """`daemon status --all` reads the notes, and asks each daemon whether it lives."""
    dead = canned.location.state_folder.parent / "0123"
    dead.mkdir()
    note = {"pid": 1, "socket": "/nowhere.sock", "inventory": "/gone/inventory.yaml"}
    (dead / "daemon.json").write_text(json.dumps(note))
    lines = orch("daemon", "status", "--all").out.splitlines()
    assert [line.split() for line in lines] == [
        ["PID", "STATE", "INVENTORY"],
        ["-", "gone", "/gone/inventory.yaml"],
        ["4711", "running", "/home/me/inventory.yaml"],
    ]


def test_help_is_for_everyone(orch: Orch) -> None:
    """--help ends with 0 and lists every command; no words in a pipe print it, with 2."""
    assert orch("--help").code == 0
    ran = orch()
    assert ran.code == 2
    assert "diagnose" in ran.out


@pytest.mark.parametrize("words", [("ps", "--jsn"), ("ps", "--", "x"), ("daemon", "stop", "now")])
def test_usage_is_that_of_the_command(words: tuple[str, ...], orch: Orch) -> None:
    """Wrong words of a command show its own usage, not that of all."""
    name = "daemon stop" if words[0] == "daemon" else words[0]
    assert orch(*words).err.startswith(f"usage: orch {name} [")


def test_version_is_printed(orch: Orch) -> None:
    """--version needs no inventory and no daemon."""
    ran = orch("--version")
    assert (ran.code, ran.out) == (0, f"orch {version('orch')}\n")


def test_a_folder_as_config_is_said_to_be_one(project: Path, orch: Orch) -> None:
    """It is there, so `no such file` would mislead."""
    ran = orch("--config", str(project), "ps")
    assert ran.code == 2
    assert f"--config names {project}, which is a folder." in ran.err
    assert f"{project}/inventory.yaml" in ran.err


def test_a_host_that_is_not_reached_is_not_said_to_be_tried_again(
    project: Path, orch: Orch
) -> None:
    """`trust` is one command: nobody tries again after it."""
    (project / "inventory.yaml").write_text(
        "version: 1\nhosts: {far: {hostname: 127.0.0.1, port: 1}}\n"
    )
    ran = orch("trust", "far")
    assert ran.code == 4
    assert "cannot be reached" in ran.err
    assert "tried again" not in ran.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("show",), "required: RUN (an id, its number or prefix, a job (its newest run), @1 or -1"),
        (("forward", "a", "99999"), "'99999' is no port from 1 to 65535"),
        (("forward", "a", "0"), "'0' is no port from 1 to 65535"),
        (("forward", "a", "80", "--local", "70000"), "'70000' is no port from 1 to 65535"),
        (("silence",), "required: COMMAND; `orch silence --help` lists them"),
        (("run", "--steps", "5"), "--steps; what is meant for the program goes behind --"),
    ],
)
def test_wrong_words_say_what_to_write(words: tuple[str, ...], said: str, orch: Orch) -> None:
    """A word that lacks is told with what may stand there, a program's with where it goes."""
    assert said in orch(*words).err


@pytest.mark.parametrize("words", ["manual", "completion names signatures", "--version", "--help"])
def test_a_reader_that_has_left_is_no_complaint(words: str) -> None:
    """Be it met by the first of a long page, or by the one piece that a short one is: 141."""
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ran = subprocess.run(
            [sys.executable, "-m", "orchestrator", *words.split()],
            env=buffered,
            stdout=writing,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    finally:
        os.close(writing)
    assert (ran.returncode, ran.stderr) == (141, b"")


@pytest.mark.parametrize(
    ("command", "usage"),
    [("exec", "TARGET -- CMD [ARG ...]"), ("run", "[JOB] [-- ARG ...]"), ("stop", "RUN\n")],
)
def test_help_shows_where_a_programs_words_go(command: str, usage: str, orch: Orch) -> None:
    """The usage line has what may, or must, stand behind the two dashes."""
    assert usage in orch(command, "--help").out


@pytest.mark.parametrize("words", [("wait", "a", "--timeout", "nan"), ("logs", "a", "--since=inf")])
def test_a_time_that_is_none_is_refused(orch: Orch, words: tuple[str, ...]) -> None:
    """`nan` and `inf` are floats to Python and no times to a person."""
    ran = orch(*words)
    assert ran.code == 2
    assert f"{words[-1].removeprefix('--since=')!r} is no time" in ran.err


@pytest.mark.parametrize(
    ("redirected", "code", "said"),
    [("> /dev/full", 1, "orch: the output: No space left on device\n"), (">&-", 0, "")],
)
def test_an_output_that_takes_nothing_is_no_traceback(
    tmp_path: Path, redirected: str, code: int, said: str
) -> None:
    """A full disk behind stdout is one sentence, and a stdout that is closed is not written to."""
    log = tmp_path / "log"
    log.write_text("step 1\n")
    ran = subprocess.run(
        ["/bin/sh", "-c", f'"$0" -m orchestrator diagnose "$1" {redirected}', sys.executable, log],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (code, said)
