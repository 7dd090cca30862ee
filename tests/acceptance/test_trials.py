"""`orch repeat`, `compare` and `bisect` with real runs: how often it crashes, and since when."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.conftest import PLAYED, MakeOrch, Orch, local_job

FINE = "import os, sys\nprint(os.environ.get('TRITON_CACHE_DIR'))\n"
BROKEN = FINE + "raise ValueError('heads')\n"

Edit = Callable[[str], str]


@pytest.fixture
def orch(make_orch: MakeOrch, short_folder: Path) -> Orch:
    """A job whose package is a file of one's own."""
    package = short_folder / "toy"
    package.mkdir()
    (package / "__main__.py").write_text(FINE)
    inventory = local_job(short_folder, "python3 -m toy")
    return make_orch(inventory.replace(str(PLAYED), str(package)))


def edited(short_folder: Path, source: str) -> None:
    """Give the package another source."""
    (short_folder / "toy" / "__main__.py").write_text(source)


def test_repeat_gives_the_rate_and_its_causes(orch: Orch, short_folder: Path) -> None:
    """Trials are runs with a reason; each has caches of its own; the crash rate has an interval."""
    said = orch.json("repeat", "-n", "2", "--cold-cache", "-m", "as it is")
    assert (said["rate"]["trials"], said["rate"]["crashes"]) == (2, 0)
    assert said["rate"]["high"] < 0.7
    caches = [orch("logs", one["run"]).stdout.strip() for one in said["trials"]]
    assert all(path.endswith("/cold-cache/triton") for path in caches)
    assert len(set(caches)) == 2
    assert orch.json("show", "@1")["why"] == "as it is (trial 2 of 2)"

    edited(short_folder, BROKEN)
    until = orch("repeat", "-n", "5", "--until-crash", check=100).stdout
    assert "trial 1 of 5: dflash-3 crashed: python_error" in until
    assert "trial 2" not in until
    assert "1 of 1 crashed: 100 % (21-100 %)" in until
    assert "dflash-3" in until.splitlines()[-1]
    assert "give a number of trials" in orch("repeat", "-n", "0", check=2).stderr


def test_compare_says_what_the_counts_can_say(orch: Orch, short_folder: Path) -> None:
    """Two releases by the runs that had them, with Fisher's test."""
    orch("repeat", "-n", "4")
    edited(short_folder, BROKEN)
    orch("repeat", "-n", "4", check=100)
    said = orch.json("compare", "dflash", "dflash-1", "@1")
    assert (said["a"]["crashes"], said["b"]["crashes"]) == (0, 4)
    assert said["p"] == pytest.approx(2 / 70)
    shown = orch("compare", "dflash", "dflash-1", "@1").stdout
    assert "The second crashes more often" in shown
    assert "python_error" in shown
    assert "no run" in orch("compare", "dflash", "nothing", "@1", check=102).stderr


def test_compare_takes_numbers_of_its_job(make_orch: MakeOrch, short_folder: Path) -> None:
    """A number is a run of the job that is named, though another job has one of that number."""
    other = f"  other: {{target: local, workdir: {short_folder}/o, command: sleep 0}}\n"
    orch = make_orch(local_job(short_folder, "sleep 0", other))
    orch("run", "dflash")
    orch("run", "other")
    assert orch.json("compare", "dflash", "1", "1")["a"]["trials"] == 1


def test_bisect_finds_the_release_that_broke_it(orch: Orch, short_folder: Path) -> None:
    """Of five releases the third is the first that crashes; what is deployed stays deployed."""
    digests = []
    for number in range(5):
        source = BROKEN if number >= 2 else FINE
        edited(short_folder, f"# {number}\n{source}")
        digests.append(orch.json("deploy")["deployed"][0]["release"])
    shown = orch("bisect", "dflash", digests[0], digests[4][:10]).stdout
    assert f"release {digests[2]} is the first bad one" in shown
    assert f"release {digests[1]} is good: 0 of 1 crashed" in shown
    assert orch.json("deploy", "--dry-run")["plans"][0]["current"] == digests[4]
    assert "was deployed after" in orch("bisect", "dflash", digests[4], digests[0], check=2).stderr


def test_leaving_repeat_starts_no_further_trial(orch: Orch, short_folder: Path) -> None:
    """Ctrl-C ends the trials; the one under way goes on and says how to end it."""
    edited(short_folder, "import time\nprint('here', flush=True)\ntime.sleep(600)\n")
    going = orch.start("repeat", "-n", "3")
    orch.until(lambda: [one for one in orch.json("ps")["runs"] if one["state"] == "running"])
    going.send_signal(signal.SIGINT)
    out, _ = going.communicate(timeout=30)
    assert going.returncode == 130
    assert "dflash-1 goes on" in out
    orch("stop", "dflash-1", "--grace", "1")
    assert [one["id"] for one in orch.json("ps", "-a")["runs"]] == ["dflash-1"]
