"""What a machine says of itself, and the inventory that is made of it."""

import pytest

from orchestrator.core.adhoc import find_target
from orchestrator.core.inventory.build import parse_inventory
from orchestrator.core.model import Inventory
from orchestrator.core.parse.survey import Survey, parse_survey
from orchestrator.core.starter import Found, Program, name_of, program_in, starter, target_names

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


def uncommented(text: str) -> Inventory:
    """The inventory of a text whose job has lost the `# ` of its lines."""
    at = text.index("# jobs:")
    job, rest = text[at:].split("\n\n", 1)
    plain = "\n".join(line.removeprefix("# ").removeprefix("#") for line in job.splitlines())
    return read(text[:at] + plain + "\n\n" + rest)


def test_the_first_inventory_says_what_was_found() -> None:
    """It is good, its targets are the ones found, and the job below is good once uncommented."""
    words = ("root@10.1.2.6:2222/pct:200", "gpu3/docker:web.1", "local")
    found = [
        Found(target=find_target(word, None, ()), survey=parse_survey(PROXMOX)) for word in words
    ]
    text = starter(found, program=Program(), daemon="on gpu3")
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
    job = uncommented(text).jobs["train"]
    assert (job.session, job.target.name) == ("train", "ct200")


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
        [Found(target=local, survey=Survey())], program=None, daemon="here"
    )
    seen = Survey(gpus=("H100",))
    assert "gpus_idle: true" in starter(
        [Found(target=local, survey=seen)], program=None, daemon="here"
    )


def test_two_hosts_with_a_container_of_one_number() -> None:
    """Each is named after its host as well, and so is the job's target: the file is good."""
    words = ("gpu1/pct:200", "gpu2/pct:200", "gpu2/pct:201")
    found = [Found(target=find_target(word, None, ()), survey=Survey()) for word in words]
    assert target_names(found) == ["gpu1-ct200", "gpu2-ct200", "ct201"]
    inventory = uncommented(starter(found, program=None, daemon="here"))
    assert inventory.targets["gpu2-ct200"].host.name == "gpu2"
    assert inventory.jobs["train"].target.name == "gpu1-ct200"


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("gpu1", "gpu1/docker:gpu1"), ["gpu1", "gpu1-gpu1"]),
        (("gpu-1", "gpu.1", "me@gpu.1"), ["gpu-1", "gpu-1-2", "gpu-1-3"]),
        (("gpu-1/pct:200", "gpu.1/pct:200"), ["gpu-1-ct200", "gpu-1-2-ct200"]),
        (("a/docker:web.1", "a/docker:web-1"), ["a-web-1", "a-web-1-2"]),
    ],
)
def test_no_two_targets_and_no_two_hosts_have_one_name(
    words: tuple[str, ...], names: list[str]
) -> None:
    """A container is named after its host as well, what is still double has a number."""
    found = [Found(target=find_target(word, None, ()), survey=Survey()) for word in words]
    assert target_names(found) == names
    targets = read(starter(found, program=None, daemon="here")).targets
    assert [*targets] == names
    for one, target in zip(found, targets.values(), strict=True):
        host = target.host
        reached = (host.hostname or host.name, host.user, target.container)
        assert reached == (one.target.host.hostname, one.target.host.user, one.target.container)


@pytest.mark.parametrize(
    ("files", "command"),
    [
        ({"train.py", "other.py"}, "python3 train.py"),
        ({"finetune.py", "README.md"}, "python3 finetune.py"),
        ({"train.py", "trainer/__main__.py"}, "python3 -m trainer"),
        ({"one.py", "two.py"}, None),
        ({"setup.py", "conftest.py", "finetune.py"}, "python3 finetune.py"),
        ({"setup.py"}, None),
        ({"my train.py"}, None),
        ({"train.py", *(f"{one}/__main__.py" for one in ("test", "docs"))}, "python3 train.py"),
        ({"a b/__main__.py", "tests/__main__.py", "dflash/__main__.py"}, "python3 -m dflash"),
        (set(), None),
    ],
)
def test_the_program_that_a_folder_has(files: set[str], command: str | None) -> None:
    """A package, else a script of a usual name, else the only one that may be what is run."""
    found = program_in(files)
    assert (found and found.command) == command


def test_a_script_and_its_requirements_fill_the_job_in() -> None:
    """The job ships the folder, runs the script, and installs what requirements.txt names."""
    local = [Found(target=find_target("local", None, ()), survey=Survey())]
    program = program_in({"train.py", "requirements.txt"})
    job = uncommented(starter(local, program=program, daemon="here")).jobs["train"]
    assert (job.package, job.command) == ("/", "python3 train.py")
    assert job.setup is not None
    assert job.setup.requirements == "requirements.txt"
    bare = uncommented(starter(local, program=program_in({"train.py"}), daemon="here"))
    assert bare.jobs["train"].setup is None
