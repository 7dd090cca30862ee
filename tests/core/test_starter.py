"""What a machine says of itself, and the inventory that is made of it."""

import pytest

from orchestrator.core.adhoc import find_target
from orchestrator.core.inventory.build import parse_inventory
from orchestrator.core.model import Inventory
from orchestrator.core.parse.survey import Survey, parse_survey
from orchestrator.core.starter import Found, name_of, starter

PROXMOX = """
@@ pct
VMID       Status     Lock         Name
200        running                 train
201        stopped                 old
202        running    backup       web

@@ lxc
200
202

@@ gpus
GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-5d2f)
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-77aa)

@@ sessions
dflash

@@ python
Python 3.11.2

@@ tmux
tmux 3.3a
"""


def test_a_proxmox_host() -> None:
    """Running containers once, by pct's word; GPUs by model; sessions and versions."""
    assert parse_survey(PROXMOX) == Survey(
        containers=(("pct", "200"), ("pct", "202")),
        gpus=("NVIDIA H100 80GB HBM3",) * 2,
        sessions=("dflash",),
        python="3.11.2",
        tmux="3.3a",
    )


def test_a_host_with_nothing() -> None:
    """Complaints are no containers and no GPUs."""
    text = "@@ docker\n\n@@ gpus\nNVIDIA-SMI has failed\n@@ python\n@@ tmux\n"
    assert parse_survey(text) == Survey()


def read(text: str) -> Inventory:
    """The inventory of a text."""
    return parse_inventory(
        text.encode(), path="/i.yaml", folder="/", exists=lambda _: True, home="/root"
    )


def test_the_first_inventory_says_what_was_found() -> None:
    """It is good, its targets are the ones found, and the job below is good once uncommented."""
    words = ("root@10.1.2.6:2222/pct:200", "gpu3/docker:web.1", "local")
    found = [
        Found(target=find_target(word, None, ()), survey=parse_survey(PROXMOX)) for word in words
    ]
    text = starter(found, package="trainer", daemon="on gpu3")
    inventory = read(text)
    assert {name: one.container for name, one in inventory.targets.items()} == {
        "ct200": "200",
        "web-1": "web.1",
        "local": None,
    }
    host = inventory.targets["ct200"].host
    assert (host.hostname, host.port, host.user) == ("10.1.2.6", 2222, "root")
    assert inventory.hosts["gpu3"].hostname is None
    assert "2 x NVIDIA H100" in text
    assert "tmux sessions now: dflash" in text
    at = text.index("# jobs:")
    job, rest = text[at:].split("\n\n", 1)
    uncommented = "\n".join(line.removeprefix("# ").removeprefix("#") for line in job.splitlines())
    jobs = read(text[:at] + uncommented + "\n\n" + rest).jobs
    assert (jobs["train"].session, jobs["train"].target.name) == ("train", "ct200")


@pytest.mark.parametrize(
    ("word", "name"),
    [("root@10.1.2.6", "10-1-2-6"), ("gpu3", "gpu3"), ("a@[fe80::1]:22", "fe80--1--22")],
)
def test_a_host_gets_a_name(word: str, name: str) -> None:
    """What an address has and a name may not becomes a dash."""
    assert name_of(word) == name


def test_a_machine_without_gpus_is_not_asked_for_idle_ones() -> None:
    """A job that is uncommented as it stands must not be refused for what the machine has not."""
    local = find_target("local", None, ())
    assert "gpus_idle" not in starter(
        [Found(target=local, survey=Survey())], package="toy", daemon="here"
    )
    seen = Survey(gpus=("H100",))
    assert "gpus_idle: true" in starter(
        [Found(target=local, survey=seen)], package="toy", daemon="here"
    )
