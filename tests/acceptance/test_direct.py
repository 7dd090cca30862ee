"""The night with no inventory at hand: a run is found, read and ended by where it is."""

import socket
import subprocess
from collections.abc import Callable

import pytest

from tests.acceptance.conftest import MakeOrch, Orch, lab_job
from tests.conftest import TmuxCall
from tests.lab import host as lab_host
from tests.lab.lab import Lab

pytestmark = [
    pytest.mark.lab,
    pytest.mark.xdist_group("lab-direct"),
    pytest.mark.timeout(240),  # many commands, each a process, on a machine that may be busy
]

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
    """Where ssh itself fails, its words are shown, and the code is that of a host not seen."""
    done = bare("exec", f"root@127.0.0.1:{free_port}", "--", "true", check=4)
    assert "refused" in done.stderr
    assert "ssh did not get to 127.0.0.1" in done.stderr


def test_exec_gives_a_host_up_that_accepts_and_is_silent(bare: Orch) -> None:
    """A hung sshd takes connections and says nothing; that is said after a while, as by cp."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = f"root@127.0.0.1:{silent.getsockname()[1]}"
        done = bare("exec", place, "--", "true", check=4, timeout_s=90)
    assert "timed out" in done.stderr
    assert "ssh did not get to 127.0.0.1" in done.stderr


def test_a_container_that_is_not_there_is_named(bare: Orch) -> None:
    """The runtime's own words are kept, and what they mean is said with how to list them."""
    done = bare("exec", "box/pct:999", "--", "ls", check=2)
    assert "999.conf' does not exist" in done.stderr
    assert "Container 999 is not on host box. `orch exec box -- pct list` lists" in done.stderr
    assert "200" in bare("exec", "box", "--", "pct", "list").stdout
    copied = bare("cp", "box/pct:999:/etc/hostname", ".", check=4)
    assert "Container 999 is not on host box." in copied.stderr


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


def typed(tmux: TmuxCall, orch: Orch, *words: str) -> Callable[[], str]:
    """A command on a real terminal; the result reads its screen."""
    line = " ".join(f"'{word}'" for word in orch.argv(*words))
    tmux(
        *("-L", "typed", "new-session", "-d", "-x", "160", "-y", "40", "-s", "t"),
        *(
            "-c",
            str(orch.folder),
            f"PATH={orch.env['PATH']} env -u TMUX {line}; echo left with $?; sleep 60",
        ),
    )
    return lambda: tmux("-L", "typed", "capture-pane", "-p", "-t", "t").stdout


def test_attach_needs_no_inventory(bare: Orch, lab: Lab, tmux: TmuxCall) -> None:
    """A session on an ad hoc target is on the terminal; leaving it leaves it alone."""
    lab["200"].run(["tmux", "new-session", "-d", "-s", "theirs", "echo here it is; sleep 600"])
    screen = typed(tmux, bare, "attach", "--target", CT200, "theirs")
    bare.until(lambda: "here it is" in screen() and "[theirs]" in screen())
    tmux("-L", "typed", "send-keys", "-t", "t", "C-b", "d")
    bare.until(lambda: "left with 0" in screen())
    assert "theirs" in lab["200"].run(["tmux", "list-sessions"]).stdout


def test_exec_on_a_terminal_is_a_terminal_there(bare: Orch, lab: Lab, tmux: TmuxCall) -> None:
    """The command has a terminal of this one's size, takes what is typed, and no noise is seen."""
    lab.host.set_bashrc(lab_host.BASHRC_PRINTS)
    screen = typed(
        tmux,
        bare,
        "exec",
        CT200,
        "--",
        "sh",
        "-c",
        "tty; stty size; tput cols; echo [$TERM]; read word; echo got $word; exit 5",
    )
    bare.until(lambda: "40 160" in screen())
    bare.until(lambda: "[screen" in screen() or "[tmux" in screen() or "[xterm" in screen())
    tmux("-L", "typed", "send-keys", "-t", "t", "something", "Enter")
    bare.until(lambda: "left with 5" in screen())
    shown = screen()
    assert "/dev/pts/" in shown
    assert "got something" in shown
    assert "Welcome to" not in shown


def test_a_run_with_no_inventory_says_what_to_give(bare: Orch) -> None:
    """Without an inventory no run has a name; the remedy names --target or a way to begin."""
    for words in (("logs", "@1"), ("stop", "@1"), ("show", "@1")):
        assert "No inventory.yaml" in bare(*words, check=2).stderr
