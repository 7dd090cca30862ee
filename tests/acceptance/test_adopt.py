"""What somebody else started in tmux is followed as a run: what was there, the seam, what comes."""

import os
import signal

import pytest

from tests.acceptance.conftest import ALERTS, MakeOrch, Orch
from tests.lab.lab import Lab
from tests.lab.receiver import Receiver

pytestmark = [
    pytest.mark.lab,
    pytest.mark.xdist_group("lab-adopt"),
    pytest.mark.timeout(240),  # many commands, each a process, on a machine that may be busy
]

COUNT = "i=0; while :; do i=$((i+1)); echo line $i; sleep 0.05; done"

WAIT = "while [ ! -e /srv/go ]; do sleep 0.1; done"


@pytest.fixture
def orch(lab: Lab, make_orch: MakeOrch) -> Orch:
    """`orch` with the lab's targets, a sink and no job."""
    return make_orch(lab.inventory_yaml() + ALERTS)


def start(lab: Lab, script: str, name: str = "theirs") -> None:
    """A tmux session in container 200 that orch knows nothing of."""
    lab["200"].run(["tmux", "new-session", "-d", "-x", "200", "-s", name, f"sh -c '{script}'"])


def go(lab: Lab, orch: Orch, run: str) -> None:
    """Let a script that WAITs go on, once its run is followed."""
    orch.until(lambda: orch.json("show", run)["state"] == "running")
    (lab["200"].root / "srv" / "go").touch()


def numbers(text: str) -> list[int]:
    """The lines of COUNT, by their numbers."""
    return [int(line.split()[1]) for line in text.splitlines() if line.startswith("line ")]


def test_scrollback_and_what_follows_in_one_sequence(lab: Lab, orch: Orch) -> None:
    """Every line from the first on, once and in order; the seam says where orch came in."""
    start(lab, COUNT)
    orch.until(
        lambda: "line 30" in lab["200"].run(["tmux", "capture-pane", "-p", "-S", "-"]).stdout
    )
    run = orch.json("adopt", "ct200", "theirs", "--detach")["run"]
    assert run == "theirs-1"
    orch.until(lambda: max(numbers(orch("logs", run).stdout), default=0) > 60)
    text = orch("logs", run).stdout
    seen = numbers(text)
    assert seen == list(range(1, len(seen) + 1))
    before, seam, after = text.partition("[orch] adopted here")
    assert seam
    assert len(numbers(before)) >= 30
    assert numbers(after)
    shown = orch.json("show", run)
    assert (shown["state"], shown["session"]) == ("running", "theirs")
    assert "line" in shown["why"]
    assert "stopped" in orch("stop", run).stdout
    assert orch.json("show", run)["state"] == "stopped"


def test_the_code_is_known_where_tmux_saw_it(lab: Lab, orch: Orch) -> None:
    """The pane's own program: tmux keeps its status, so the run ends with it."""
    start(lab, f"{WAIT}; echo bye; exit 7")
    run = orch.json("adopt", "ct200", "theirs", "--detach")["run"]
    go(lab, orch, run)
    orch("wait", run, "--timeout", "40", check=100)
    shown = orch.json("show", "theirs-1")
    assert (shown["state"], shown["exit_code"]) == ("failed", 7)
    assert "bye" in orch("logs", "theirs-1").stdout


def test_the_code_is_null_where_nobody_saw_it(lab: Lab, orch: Orch, receiver: Receiver) -> None:
    """A program behind a shell: its end is seen, its crash told, its code not made up."""
    lab["200"].run(["tmux", "new-session", "-d", "-x", "200", "-s", "theirs"])
    frames = 'Traceback (most recent call last):\\n  File "a.py", line 1, in f\\n'
    said = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
    script = f"{WAIT}; printf '{frames}{said}\\n'; exit 3"
    (lab["200"].root / "srv" / "train.sh").write_text(script)
    lab["200"].run(["tmux", "send-keys", "-t", "theirs", "sh /srv/train.sh", "Enter"])
    orch.until(
        lambda: (
            "train.sh"
            in lab["200"].run(["sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"]).stdout
        )
    )
    run = orch.json("adopt", "ct200", "theirs", "--detach")["run"]
    go(lab, orch, run)
    orch("wait", run, "--timeout", "40", check=100)
    shown = orch.json("show", "theirs-1")
    assert (shown["state"], shown["exit_code"], shown["signal"]) == ("lost", None, None)
    assert shown["verdict"]["signature"] == "cuda_oom"
    receiver.wait_for(where=lambda one: one.json["status"] == "firing")


def test_a_daemon_killed_with_an_adopted_run_takes_it_up_again(lab: Lab, orch: Orch) -> None:
    """No line is lost or doubled, although the inventory knows no job of that name."""
    start(lab, COUNT)
    run = orch.json("adopt", "ct200", "theirs", "--detach")["run"]
    orch.until(lambda: numbers(orch("logs", run).stdout))
    os.kill(orch.json("daemon", "status")["pid"], signal.SIGKILL)
    orch.until(lambda: orch("daemon", "status", check=None).returncode == 1)
    before = len(numbers(orch("logs", run).stdout))
    orch.until(lambda: len(numbers(orch("logs", run).stdout)) > before + 20)
    seen = numbers(orch("logs", run).stdout)
    assert seen == list(range(1, len(seen) + 1))


def test_a_pane_that_is_piped_is_left_alone_until_told(lab: Lab, orch: Orch) -> None:
    """tmux has one pipe a pane: whoever has it keeps it, unless --take-pipe is said."""
    start(lab, COUNT)
    lab["200"].run(["tmux", "pipe-pane", "-t", "theirs", "cat > /srv/mine.log"])
    refused = orch("adopt", "ct200", "theirs", check=1)
    assert "--take-pipe" in refused.stderr
    assert orch.json("ps")["runs"] == []
    run = orch.json("adopt", "ct200", "theirs", "--take-pipe", "--detach")["run"]
    orch.until(lambda: len(numbers(orch("logs", run).stdout)) > 20)
    again = orch("adopt", "ct200", "theirs", check=1)
    assert f"followed as {run}" in again.stderr


def test_panes_of_one_session_are_told_apart(lab: Lab, orch: Orch) -> None:
    """With several panes the person says which; that one and no other is followed."""
    start(lab, COUNT)
    lab["200"].run(["tmux", "split-window", "-t", "theirs", "sh -c 'echo other pane; sleep 600'"])
    refused = orch("adopt", "ct200", "theirs", check=1)
    assert "theirs:0.0" in refused.stderr
    assert "theirs:0.1" in refused.stderr
    run = orch.json("adopt", "ct200", "theirs:0.1", "--detach")["run"]
    orch.until(lambda: "other pane" in orch("logs", run).stdout)
    assert not numbers(orch("logs", run).stdout)


def test_each_pane_of_a_session_is_a_run_of_its_own(lab: Lab, orch: Orch) -> None:
    """Both are adopted and told apart; the end of one leaves the other as it is."""
    start(lab, COUNT)
    lab["200"].run(["tmux", "split-window", "-t", "theirs", "sh -c 'echo other pane; sleep 600'"])
    counting = orch.json("adopt", "ct200", "theirs:0.0", "--detach")["run"]
    other = orch.json("adopt", "ct200", "theirs:0.1", "--detach")["run"]
    orch.until(lambda: "other pane" in orch("logs", other).stdout)
    orch.until(lambda: len(numbers(orch("logs", counting).stdout)) > 5)
    orch("stop", other)
    assert not lab["200"].pids(running="sleep 600")
    seen = len(numbers(orch("logs", counting).stdout))
    orch.until(lambda: len(numbers(orch("logs", counting).stdout)) > seen + 5)
    assert orch.json("show", counting)["state"] == "running"


def test_a_pane_whose_adoption_is_over_can_be_adopted_again(lab: Lab, orch: Orch) -> None:
    """Its shell lives on, and somebody starts the next program in it."""
    lab["200"].run(["tmux", "new-session", "-d", "-x", "200", "-s", "theirs"])
    type_in = ["tmux", "send-keys", "-t", "theirs"]
    lab["200"].run([*type_in, "sleep 30", "Enter"])
    orch.until(lambda: lab["200"].pids(running="sleep 30"))
    first = orch.json("adopt", "ct200", "theirs", "--detach")["run"]
    orch.until(lambda: orch.json("show", first)["state"] == "running")
    lab["200"].run([*type_in, "C-c"])
    orch("wait", first, "--timeout", "40", check=None)
    lab["200"].run([*type_in, f"sh -c '{COUNT}'", "Enter"])
    again = orch.json("adopt", "ct200", "theirs", "--detach")["run"]
    orch.until(lambda: len(numbers(orch("logs", again).stdout)) > 5)


def test_a_bare_process_that_writes_a_file(lab: Lab, orch: Orch) -> None:
    """Its file is followed from its first byte, and its end is seen; a terminal's is refused."""
    script = f"( echo line 1; {WAIT}; echo line 2 ) >/srv/out.log 2>&1 & echo $!"
    pid = lab["200"].run(["sh", "-c", f"setsid sh -c '{script}'"]).stdout.strip()
    run = orch.json("adopt", "ct200", pid, "--detach")["run"]
    go(lab, orch, run)
    orch("wait", run, "--timeout", "40", check=100)
    assert numbers(orch("logs", run).stdout) == [1, 2]
    assert orch.json("show", run)["exit_code"] is None
    start(lab, COUNT)
    pane = (
        lab["200"].run(["tmux", "list-panes", "-t", "theirs", "-F", "#{pane_pid}"]).stdout.strip()
    )
    assert "tmux session" in orch("adopt", "ct200", pane, check=1).stderr


def test_nothing_of_that_name(orch: Orch) -> None:
    """A session that is not there, a process that is not, a target that is not."""
    assert "no live tmux session none" in orch("adopt", "ct200", "none", check=1).stderr
    assert "no process 999999" in orch("adopt", "ct200", "999999", check=1).stderr
    assert "no target ct9" in orch("adopt", "ct9", "x", check=2).stderr
