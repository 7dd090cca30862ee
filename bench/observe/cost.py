"""What the real daemon and a probe cost: memory, and CPU with no run and with one of 10 lines/s.

    python -m bench.observe.cost [SECONDS] [--json]          (default: 30; root, the lab)

The daemon is the one that `orch` starts, over ssh into a container of the lab. CPU is what the
kernel counted for all threads (schedstat), in percent of one core. Where the daemon's memory goes
is told twice: by what its pages are, and by what an interpreter takes to load its parts in turn.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from bench.observe.figures import show, wants_json
from tests.acceptance.conftest import Orch
from tests.lab.lab import Lab

SECONDS = 30.0
SETTLE_S = 10.0
PARTS = (
    *("asyncio", "aiohttp.web", "sqlalchemy", "orchestrator.core.detect.engine"),
    *("orchestrator.daemon.serving", "asyncssh"),
)
"""In the order in which they are loaded, so that each is told without what others need as well."""
STEPS = """
import importlib, json, sys
def rss_mb():
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) / 1e3 for line in file if line.startswith("Rss"))
found, before = {"python": rss_mb()}, rss_mb()
for name in sys.argv[1:]:
    importlib.import_module(name)
    found[name], before = round(rss_mb() - before, 1), rss_mb()
print(json.dumps(found))
"""
JOB = """jobs:
  lines:
    target: ct200
    workdir: /srv/orch/lines
    command: [python3, -u, -c, "import time\\nwhile True:\\n
      \\ print(f'step at {time.time():.6f} loss 2.34567 tokens/s 123456.7', flush=True)\\n
      \\ time.sleep(0.1)"]
"""


def main() -> None:
    """A lab, a daemon of its own, and twice the same look."""
    as_json = wants_json()
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    with tempfile.TemporaryDirectory(prefix="orch-") as name, Lab.start(netns=True) as lab:
        orch = own_orch(Path(name), lab.inventory_yaml() + JOB)
        try:
            orch("daemon", "start")
            idle = _costs(lab, orch, seconds)
            run = orch.json("run", "--detach", "--force")["run"]
            busy = _costs(lab, orch, seconds)
            orch("stop", run)
        finally:
            orch("daemon", "stop", check=None)
    show([{"lines_per_s": 0, **idle}, {"lines_per_s": 10, **busy}], as_json=as_json)
    show([{"loaded_mb": "", **_loaded()}], as_json=as_json)


def own_orch(folder: Path, inventory: str) -> Orch:
    """The acceptance tests' orch, in folders of its own."""
    homes = {"HOME": "h", "XDG_STATE_HOME": "s", "XDG_RUNTIME_DIR": "r", "XDG_CONFIG_HOME": "c"}
    for part in homes.values():
        (folder / part).mkdir(mode=0o700)
    (folder / "inventory.yaml").write_text(inventory)
    env = {**os.environ, **{key: str(folder / part) for key, part in homes.items()}}
    return Orch(folder=folder, env=env)


def _costs(lab: Lab, orch: Orch, seconds: float) -> dict[str, Any]:
    time.sleep(SETTLE_S)
    daemon = int(orch.json("daemon", "status")["pid"])
    probes = lab["200"].pids(running=" serve ")
    before, begun = _cpu_s(daemon), time.monotonic()
    probe_before = sum(map(_cpu_s, probes))
    time.sleep(seconds)
    passed = time.monotonic() - begun
    return {
        "daemon_cpu_percent": round(100 * (_cpu_s(daemon) - before) / passed, 3),
        "daemon_mb": round(psutil.Process(daemon).memory_info().rss / 1e6, 1),
        **_pages(daemon),
        "probe_cpu_percent": round(100 * (sum(map(_cpu_s, probes)) - probe_before) / passed, 3),
        "probe_mb": round(max(psutil.Process(one).memory_info().rss for one in probes) / 1e6, 1),
        "load": [round(one, 1) for one in os.getloadavg()],
    }


def _pages(pid: int) -> dict[str, float]:
    """What the process wrote, what it maps of files, and the largest of those."""
    by_file: dict[str, float] = {}
    path = ""
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        words = line.split()
        if "-" in words[0] and not words[0].endswith(":"):
            path = words[5] if len(words) > 5 else ""
        elif words[0] == "Rss:":
            name = Path(path).name if path.startswith("/") else ""
            by_file[name] = by_file.get(name, 0.0) + int(words[1]) / 1e3
    own = by_file.pop("", 0.0)
    largest = sorted(by_file.items(), key=lambda one: -one[1])[:4]
    return {
        "own_mb": round(own, 1),
        "files_mb": round(sum(by_file.values()), 1),
        **{f"  {name.partition('.')[0]}_mb": round(size, 1) for name, size in largest},
    }


def _loaded() -> dict[str, float]:
    """MB that a fresh interpreter takes, and what each part adds."""
    argv = [sys.executable, "-c", STEPS, *PARTS]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return {"python": round(found.pop("python"), 1), **found}


def _cpu_s(pid: int) -> float:
    files = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(file.read_text().split()[0]) for file in files) / 1e9


if __name__ == "__main__":
    main()
