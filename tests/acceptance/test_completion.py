"""Tab completes what there is now: runs of the daemon, jobs and targets of the inventory."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.conftest import MakeOrch, Orch, local_job

pytestmark = pytest.mark.timeout(240)  # many commands, each a process, on a busy machine

BASH = """
source "$1"
shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
_shtab_orch
printf '%s\\n' "${COMPREPLY[@]}"
"""


def lacks(program: str) -> bool:
    """Whether a test of this shell may be skipped: never in CI, which installs it."""
    return shutil.which(program) is None and os.environ.get("CI") != "true"


@pytest.fixture
def orch(make_orch: MakeOrch, short_folder: Path) -> Orch:
    """An `orch` with one job, and its program in the PATH as a shell would find it."""
    made = make_orch(local_job(short_folder, "python3 -m played steps --count 1"))
    folder = made.folder / "bin"
    folder.mkdir()
    program = folder / "orch"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m orchestrator "$@"\n')
    program.chmod(0o755)
    made.env["PATH"] = f"{folder}:{made.env['PATH']}"
    return made


def shell(orch: Orch, *argv: str) -> list[str]:
    """Lines that a shell prints."""
    done = subprocess.run(
        argv, capture_output=True, text=True, cwd=orch.folder, env=orch.env, timeout=50, check=True
    )
    return done.stdout.split()


def completed(orch: Orch, *words: str) -> list[str]:
    """What bash offers for the last of the words."""
    script = orch.folder / "orch.bash"
    script.write_text(orch("completion", "bash").stdout)
    return shell(orch, "bash", "-c", BASH, "bash", str(script), "orch", *words)


def test_bash_completes_what_there_is(orch: Orch) -> None:
    """Jobs and targets with no daemon, which is not started for it; then runs by their ids."""
    assert completed(orch, "deploy", "") == ["dflash"]
    assert completed(orch, "exec", "lo") == ["local"]
    assert completed(orch, "show", "") == []
    orch("daemon", "status", check=1)
    orch("run")
    orch("run")
    assert completed(orch, "show", "dflash-") == ["dflash-1", "dflash-2"]
    assert completed(orch, "logs", "x") == []
    for command in ("stop", "attach", "logs", "explain"):
        assert completed(orch, command, "@") == ["@1", "@2"]
        assert completed(orch, command, "dfl") == ["dflash", "dflash-1", "dflash-2"]


def test_bash_completes_what_is_no_run(orch: Orch) -> None:
    """Sinks, signatures and both kinds of places of a copy, none of which needs a daemon."""
    assert completed(orch, "alert", "test", "") == ["ops"]
    assert "fx_trace_race" in completed(orch, "simulate", "fx_")
    (orch.folder / "looked.txt").touch()
    assert completed(orch, "cp", "lo") == ["local:", "looked.txt"]
    assert completed(orch, "wait", "x", "--until", "cr") == ["crashed"]
    assert completed(orch, "wait", "--until", "phase:c") == ["phase:checkpoint", "phase:compile"]
    orch("daemon", "status", check=1)


@pytest.mark.skipif(lacks("zsh"), reason="there is no zsh here")
def test_zsh_completes_what_there_is(orch: Orch) -> None:
    """The script is sound to zsh, and its functions hand over the same names."""
    script = orch.folder / "_orch"
    script.write_text(orch("completion", "zsh").stdout)
    shell(orch, "zsh", "-n", str(script))
    stubs = "compdef() { : }; compadd() { shift; print -l -- $@ }"
    line = f"{stubs}; source ./_orch; _orch_names_jobs"
    assert shell(orch, "zsh", "-f", "-c", line) == ["dflash"]


@pytest.mark.skipif(lacks("fish"), reason="there is no fish here")
def test_fish_completes_what_there_is(orch: Orch) -> None:
    """The same names, asked for at each Tab."""
    script = orch.folder / "orch.fish"
    script.write_text(orch("completion", "fish").stdout)
    line = f'source {script}; complete -C "orch deploy "'
    assert "dflash" in shell(orch, "fish", "--no-config", "-c", line)


def test_names_where_there_is_nothing(orch: Orch) -> None:
    """A broken inventory, or none, offers nothing and prints nothing into the line being typed."""
    (orch.folder / "inventory.yaml").write_text("nonsense: [")
    done = orch("completion", "names", "jobs")
    assert (done.stdout, done.stderr) == ("", "")


def test_the_manual_page_has_every_command(orch: Orch) -> None:
    """Made from the parser: commands, options and exit codes."""
    page = orch("manual").stdout
    assert page.startswith(".TH ORCH")
    assert "orch \\- training runs" in page
    for word in ("adopt", "trust", "no\\-deploy", "124 timeout"):
        assert word in page
