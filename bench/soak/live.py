"""How soon a daemon that was killed among many live runs shows all of them as they are.

    python -m bench.soak.live [--runs 50] [--kills 15] [--json]

Every daemon is a new Python, as `orch` starts one: its imports count. It is current once it sees
its target and shows every run alive, with each byte that its log had when the daemon began.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.observe.figures import show
from orchestrator.api.client import Client
from orchestrator.api.location import locate
from orchestrator.core.errors import OrchError
from tests.faults.story import JOBS, LOG_NAME

WITHIN_S = 60.0
LIVES_S = 1.0
"""How long a daemon lives after it was current."""


def inventory(folder: Path, runs: int) -> str:
    """Jobs that print a step a second and never end."""
    jobs = "".join(
        f"""
  job{number}:
    target: local
    workdir: {folder}/w{number}
    command: python3 -S -m played steps --count 0 --pause 1
    env: {{PYTHONPATH: {JOBS}}}"""
        for number in range(runs)
    )
    return f"""version: 1
hosts:
  here: {{transport: local}}
targets:
  local: {{host: here, python: {sys.executable}}}
jobs:{jobs}
"""


def start(config: Path, env: dict[str, str]) -> "subprocess.Popen[bytes]":
    """A daemon in a Python of its own."""
    argv = [sys.executable, "-m", "orchestrator", "--config", str(config), "daemon", "run"]
    return subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def snapshot(client: Client) -> dict[str, Any]:
    """What the daemon shows; nothing where it does not answer."""
    try:
        return dict(client.get("/v1/snapshot"))
    except OrchError:
        return {"targets": [], "runs": []}


def sizes(folder: Path) -> dict[str, int]:
    """Bytes that each run's log has now, by the run's folder."""
    logs = folder.glob(f"w*/runs/*/attempt-1/{LOG_NAME}")
    return {str(log.parent.parent): log.stat().st_size for log in logs}


def until_current(client: Client, wanted: dict[str, int]) -> float:
    """Seconds until all of it is shown."""
    begun, seen, linked = time.monotonic(), dict[str, int](), False
    found: dict[str, Any] = {"runs": []}
    while time.monotonic() - begun < WITHIN_S:
        found = snapshot(client)
        seen = {one["directory"]: one["log_bytes"] for one in found["runs"]}
        linked = bool(found["targets"]) and all(
            one["link"] == "connected" for one in found["targets"]
        )
        alive = all(one["state"] == "running" for one in found["runs"])
        if linked and alive and all(seen.get(run, 0) >= size for run, size in wanted.items()):
            return time.monotonic() - begun
        time.sleep(0.02)
    behind = [run for run, size in wanted.items() if seen.get(run, 0) < size]
    states = sorted({one["state"] for one in found["runs"]})
    raise TimeoutError(
        f"not current: linked {linked}, {states}, {len(behind)} behind: {behind[:3]}"
    )


def _until(ready: Callable[[], bool], what: str) -> None:
    ends = time.monotonic() + WITHIN_S
    while not ready():
        if time.monotonic() > ends:
            raise TimeoutError(f"not within {WITHIN_S:.0f} s: {what}")
        time.sleep(0.1)


def measure(folder: Path, env: dict[str, str], runs: int, kills: int) -> dict[str, Any]:
    """Start the runs, then kill one daemon after the other."""
    config = folder / "inventory.yaml"
    config.write_text(inventory(folder, runs))
    client = Client(locate(config, env).socket, timeout_s=20.0)
    daemon, took = start(config, env), []
    try:
        _until(lambda: bool(snapshot(client)["targets"]), "a target is known")
        for number in range(runs):
            list(client.stream("POST", "/v1/run", {"job": f"job{number}"}))
        _until(lambda: sum(map(bool, sizes(folder).values())) >= runs, "all runs print")
        for _ in range(kills):
            daemon.kill()
            daemon.wait()
            wanted = sizes(folder)
            daemon = start(config, env)
            took.append(until_current(client, wanted))
            time.sleep(LIVES_S)
    finally:
        for one in snapshot(client)["runs"]:
            list(client.stream("POST", f"/v1/runs/{one['id']}/stop", {"grace_s": 1}))
        daemon.kill()
        daemon.wait()
    took.sort()
    return {
        "runs": runs,
        "kills": kills,
        "current_p50_s": round(took[len(took) // 2], 2),
        "current_p95_s": round(took[min(len(took) - 1, int(len(took) * 0.95))], 2),
        "current_max_s": round(took[-1], 2),
    }


def main() -> int:
    """Run and report."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--kills", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="orch-live-", dir="/tmp"))
    env = {**os.environ, "TMUX_TMPDIR": str(folder), "HOME": str(folder)}
    env |= {"XDG_STATE_HOME": f"{folder}/s", "XDG_RUNTIME_DIR": f"{folder}/r"}
    env.pop("TMUX", None)
    for name in ("s", "r", *(f"w{number}" for number in range(options.runs))):
        (folder / name).mkdir(mode=0o700)
    try:
        show([measure(folder, env, options.runs, options.kills)], as_json=options.json)
    finally:
        subprocess.run(["tmux", "kill-server"], env=env, capture_output=True, check=False)
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
