"""`status --since` and `logs --grep/--rank/--since` over the real daemon."""

import time
from pathlib import Path

from tests.acceptance.conftest import PLAYED, MakeOrch, local_job

SOURCE = """\
import os, sys, time
for number in range(3):
    for rank in range(2):
        print(f"[rank{rank}]: early {number}", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
print("[rank1]: late one", flush=True)
print("late two", flush=True)
"""


def test_logs_by_time_rank_and_pattern(make_orch: MakeOrch, short_folder: Path) -> None:
    """Each of them alone, together, and on a run that still writes."""
    package, go = short_folder / "toy", short_folder / "go"
    package.mkdir()
    (package / "__main__.py").write_text(SOURCE)
    inventory = local_job(short_folder, f"python3 -m toy {go}").replace(str(PLAYED), str(package))
    orch = make_orch(inventory)
    orch("run", "--detach")
    orch.until(lambda: "early 2" in orch("logs", "@1").stdout)
    seen = orch.json("show", "@1")["output_at"]
    # The index of times has one entry a second: what comes now is to have another one.
    orch.until(lambda: time.time() > seen + 1.5)
    between = str(time.time())
    go.touch()
    orch("wait", "@1")

    late = ["[rank1]: late one", "late two"]
    assert orch("logs", "@1", "--since", between).stdout.splitlines() == late
    assert orch("logs", "@1", "-f", "--since", between).stdout.splitlines() == late
    assert len(orch("logs", "@1", "--since", "1h").stdout.splitlines()) == 8
    assert orch("logs", "@1", "--raw", "--since", between).stdout == "\n".join([*late, ""])
    ranked = orch("logs", "@1", "--rank", "1").stdout.splitlines()
    assert ranked == [*(f"[rank1]: early {n}" for n in range(3)), "[rank1]: late one"]
    assert orch("logs", "@1", "--rank", "1", "--grep", "la.e", "--since", between).stdout == (
        "[rank1]: late one\n"
    )


def test_status_since_tells_what_changed(make_orch: MakeOrch, short_folder: Path) -> None:
    """Nothing after the newest cursor; a run that began since then, and only that one."""
    orch = make_orch(local_job(short_folder, "python3 -m played steps --count 1"))
    orch("run")
    orch.until(lambda: orch.json("status")["targets"][0]["link"] == "connected")
    orch("diff", "@1", "@1")  # waits until nothing is done for the run any more
    first = orch.json("status")
    assert [run["id"] for run in first["runs"]] == ["dflash-1"]
    orch("run")
    later = orch.json("status", "--since", str(first["cursor"]))
    assert [run["id"] for run in later["runs"]] == ["dflash-2"]
    assert later["cursor"] > first["cursor"]
    orch("daemon", "stop")
    # A cursor of an earlier daemon says nothing to this one: it gets everything.
    again = orch.json("status", "--since", str(later["cursor"]))
    assert {run["id"] for run in again["runs"]} == {"dflash-1", "dflash-2"}
