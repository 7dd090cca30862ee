"""A container without Python: launched, followed and ended by its shell, and told as such."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.acceptance.conftest import ALERTS, MakeOrch, Orch
from tests.lab.lab import Lab
from tests.lab.receiver import Receiver

Tell = Callable[..., Orch]

pytestmark = [
    pytest.mark.lab,
    pytest.mark.xdist_group("lab"),
    pytest.mark.timeout(240),  # many commands, each a process, on a machine that may be busy
]

HIDE = """
# The stand-in for nvidia-smi is a Python program, which the real one is not.
cp "$(readlink -f /usr/bin/python3)" /opt/interpreter
sed '1s,.*,#!/opt/interpreter -ES,' /usr/bin/nvidia-smi >/opt/nvidia-smi
chmod +x /opt/nvidia-smi
mount --bind /opt/nvidia-smi /usr/bin/nvidia-smi
for name in python3 python3.10 python3.11 python3.12 python3.13; do
  for folder in /usr/local/sbin /usr/local/bin /usr/sbin /usr/bin /sbin /bin; do
    file=$(readlink -f "$folder/$name") || continue
    [ -e "$file" ] && ! grep -q " $file " /proc/self/mounts && mount --bind /bin/false "$file"
  done
done
! python3 -c 1
"""
SHOW = """
while read -r _ file _; do
  case $file in */python3*|/usr/bin/nvidia-smi) umount "$file" ;; esac
done </proc/self/mounts
true
"""


@pytest.fixture
def bare_container(lab: Lab) -> Iterator[str]:
    """Container 200 with every python3 of its PATH covered."""
    lab.gpus.set_idle(2)
    lab["200"].run(["sh", "-c", HIDE])
    yield "200"
    lab["200"].run(["sh", "-c", SHOW])


@pytest.fixture
def tell(lab: Lab, make_orch: MakeOrch, bare_container: str) -> Tell:
    """`tell(command)`: an `orch` whose job runs a shell command in that container."""
    return lambda command, more="": make_orch(
        f"""{lab.inventory_yaml()}jobs:
  dflash:
    target: ct{bare_container}
    workdir: /srv
    command: ["sh", "-c", '{command}']
{more}{ALERTS}"""
    )


def test_a_run_is_launched_followed_and_ended(tell: Tell) -> None:
    """Its words, its environment, every line, and its code; nothing of it needs Python."""
    orch = tell(
        'echo "$ORCH_RUN_ID $WORD"; for i in 1 2 3; do echo line $i; sleep 1; done; exit 7',
        '    env: {WORD: "it is"}\n',
    )
    done = orch("run", check=100)
    assert "plain shell" in done.stdout
    lines = orch("logs", "dflash").stdout.splitlines()
    assert lines[:4] == ["dflash-1 it is", "line 1", "line 2", "line 3"]
    shown = orch.json("show", "dflash")
    assert (shown["state"], shown["exit_code"], shown["signal"]) == ("failed", 7, None)


def test_a_code_above_128_is_not_called_a_signal(tell: Tell) -> None:
    """137 may be exit 137 or kill -9: the shell cannot tell, and orch does not say."""
    orch = tell("exit 137")
    orch("run", check=100)
    shown = orch.json("show", "dflash")
    assert (shown["state"], shown["exit_code"], shown["signal"]) == ("failed", None, None)


def test_a_crash_is_recognised_and_alerted(tell: Tell, receiver: Receiver) -> None:
    """Detection reads what the shell brings like any other output."""
    said = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
    frames = 'Traceback (most recent call last):\\n  File \\"a.py\\", line 1, in f\\n'
    orch = tell(f'printf "{frames}{said}\\n"; exit 1')
    orch("run", check=100)
    assert orch.json("show", "dflash")["verdict"]["signature"] == "cuda_oom"
    receiver.wait_for(where=lambda one: one.json["status"] == "firing")


def test_a_run_is_stopped_and_no_secret_is_seen(tell: Tell, lab: Lab) -> None:
    """SIGTERM reaches the program; a secret is in no argument, file or tmux environment."""
    orch = tell(
        'trap "echo told; exit 0" TERM; while :; do sleep 1; done', "    secrets: [HF_TOKEN]\n"
    )
    orch.env["HF_TOKEN"] = "hf_verysecret"
    run = orch.json("run", "--detach")["run"]
    orch.until(lambda: orch.json("show", run)["state"] == "running")
    seen = lab["200"].run(
        [
            "sh",
            "-c",
            "cat /proc/[0-9]*/cmdline; grep -ra ver[y]secret /srv; tmux show-environment -g",
        ]
    )
    assert "verysecret" not in seen.stdout
    assert "stopped" in orch("stop", run, timeout_s=90).stdout
    assert orch.json("show", run)["state"] == "stopped"
    assert "told" in orch("logs", run).stdout


def test_a_target_without_python_says_so(tell: Tell) -> None:
    """status and doctor name the plain shell, what is lost by it and the remedy; GPUs are seen."""
    orch = tell("true")
    orch.until(lambda: "plain shell" in orch("status").stdout)
    orch.until(lambda: len(orch.json("top")["targets"][0]["gpus"]) == 2)
    done = orch("doctor", check=None)
    assert "a code above 128" in done.stdout
    assert "Install Python 3.10" in done.stdout


def test_runs_of_a_lost_database_come_back(tell: Tell, lab: Lab) -> None:
    """One that failed and one that lives: attempts, ends and logs are what they were."""
    orch = tell("echo begun; until [ -e /tmp/finish ]; do sleep 0.2; done; echo over; exit 3")
    lab["200"].run(["touch", "/tmp/finish"])
    orch("run", check=100)
    lab["200"].run(["rm", "/tmp/finish"])
    live = orch.json("run", "--detach")["run"]
    before = orch.json("show", "dflash-1")
    orch.until(lambda: "begun" in orch("logs", live).stdout)
    place = orch.json("daemon", "status")
    os.kill(place["pid"], signal.SIGKILL)
    (Path(place["state_folder"]) / "orch.db").write_bytes(b"spoiled" * 1000)
    orch("daemon", "start")
    orch.until(lambda: len(orch.json("ps", "-a")["runs"]) == 2)
    orch.until(lambda: orch.json("show", "dflash-1")["ended_at"])
    same = ("state", "attempt", "exit_code", "signal", "directory")
    assert {key: orch.json("show", "dflash-1")[key] for key in same} == {
        key: before[key] for key in same
    }
    assert orch("logs", "dflash-1").stdout.splitlines()[:2] == ["begun", "over"]
    assert orch.json("show", live)["state"] == "running"
    lab["200"].run(["touch", "/tmp/finish"])
    orch("wait", live, check=100)
    assert orch.json("show", live)["exit_code"] == 3
    assert orch("logs", live).stdout.splitlines()[:2] == ["begun", "over"]
