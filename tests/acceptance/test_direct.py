"""The night with no inventory at hand: a run is found, read and ended by where it is."""

import subprocess

import pytest

from tests.acceptance.conftest import MakeOrch, Orch, lab_job
from tests.lab import host as lab_host
from tests.lab.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("lab")]

CT200 = "box/pct:200"


@pytest.fixture
def bare(bare_orch: Orch, lab: Lab) -> Orch:
    """`orch` with no inventory, to which the host's key is known."""
    bare_orch("trust", "--yes", "box")
    return bare_orch


def test_exec_passes_streams_and_code_and_no_noise(bare: Orch, lab: Lab) -> None:
    """stdin, stdout, stderr and the code are the command's; a .bashrc that prints is not seen."""
    lab.host.set_bashrc(lab_host.BASHRC_PRINTS)
    done = subprocess.run(
        bare.argv("exec", CT200, "--", "sh", "-c", "cat; echo told >&2; exit 7"),
        input=b"a\x00b\xff\n",
        capture_output=True,
        cwd=bare.folder,
        env=bare.env,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == (b"a\x00b\xff\n", b"told\n", 7)


def test_exec_that_never_ran_says_why(bare: Orch, free_port: int) -> None:
    """Where ssh itself fails, its words are shown and its code is given."""
    done = bare("exec", f"root@127.0.0.1:{free_port}", "--", "true", check=255)
    assert "refused" in done.stderr


def test_a_run_is_read_and_stopped_with_no_daemon(
    lab: Lab, bare: Orch, make_orch: MakeOrch
) -> None:
    """Its log from the first line, its newest lines, and its end; the daemon hears of the end."""
    orch = make_orch(lab_job(lab, "python3 -m played steps --count 0"))
    run = orch.json("run", "--detach")["run"]
    bare.until(lambda: "step 3 " in bare("logs", "--target", CT200, run).stdout)
    lines = bare("logs", "--target", CT200, "dflash").stdout.splitlines()
    assert [line.split()[1] for line in lines if line.startswith("step ")][:3] == ["1", "2", "3"]
    assert len(bare("logs", "--target", CT200, "-n", "2", run).stdout.splitlines()) == 2
    following = bare.start("logs", "--target", CT200, "-f", "-n", "1", run)
    assert "stopped" in bare("stop", "--target", CT200, run).stdout
    shown, _ = following.communicate(timeout=60)
    assert "step " in shown
    assert following.returncode == 0
    orch("wait", run, "--timeout", "60", timeout_s=90, check=None)
    assert orch.json("show", run)["state"] in {"failed", "stopped"}


def test_a_session_of_somebody_else_is_read_and_not_stopped(bare: Orch, lab: Lab) -> None:
    """What tmux still has of it is shown; ending it is left to whoever started it."""
    lab["200"].run(["tmux", "new-session", "-d", "-s", "theirs", "echo here it is; sleep 600"])
    bare.until(lambda: "here it is" in bare("logs", "--target", CT200, "theirs").stdout)
    assert "adopt" in bare("logs", "-f", "--target", CT200, "theirs", check=1).stderr
    assert "did not start" in bare("stop", "--target", CT200, "theirs", check=1).stderr
    assert "theirs" in bare("logs", "--target", CT200, "other", check=102).stderr
