"""Crash line written -> webhook received, over some crashes, on this machine and in the lab.

    python -m bench.crash_latency [--crashes 20] [--place local|lab]

The clock is one: the job stamps the time right after the traceback's last byte, the receiver stamps
the arrival of the body's last byte, both on this machine. Both forms of the story are measured: the
process lives on (`hang`), and it exits right after (`crash`).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.lab.lab import Lab
from tests.lab.receiver import Receiver

PLAYED = Path(__file__).parent.parent / "tests" / "lab" / "jobs" / "played"
ALERTS = """
alerts:
  sinks:
    ops: {type: webhook, url_env: ORCH_WEBHOOK_URL, secret_env: ORCH_WEBHOOK_SECRET}
  routes: [{match: {}, to: [ops]}]
"""


def job(target: str, workdir: str, command: str) -> str:
    """The jobs part of an inventory."""
    return f"""
jobs:
  bench:
    target: {target}
    package: {PLAYED}
    workdir: {workdir}
    command: python3 -m played {command} --lines 300 --stamp {workdir}/stamp
{ALERTS}"""


@contextmanager
def place(name: str) -> Iterator[tuple[str, str, Path]]:
    """Head of an inventory, its target, and where the job's working folder is seen from here."""
    if name == "lab":
        with Lab.start() as lab:
            yield lab.inventory_yaml(), "ct200", Path(lab["200"].root)
    else:
        head = "version: 1\nhosts: {here: {transport: local}}\n"
        yield (
            f"{head}targets: {{local: {{host: here, python: {sys.executable}}}}}\n",
            "local",
            Path("/"),
        )


def measure(where: str, form: str, crashes: int) -> list[float]:
    """Seconds from stamp to arrival, one a crash."""
    found = []
    with (
        tempfile.TemporaryDirectory(prefix="orch-bench-") as folder,
        Receiver() as receiver,
        place(where) as (head, target, root),
    ):
        workdir = "/srv/bench" if where == "lab" else f"{folder}/work"
        inventory = Path(folder) / "inventory.yaml"
        inventory.write_text(head + job(target, workdir, f"fx_race_{form}"))
        env = {
            **os.environ,
            **receiver.env,
            "XDG_STATE_HOME": f"{folder}/state",
            "TMUX_TMPDIR": folder,
        }
        orch = [sys.executable, "-m", "orchestrator", "--config", str(inventory)]

        def call(*words: str) -> None:
            subprocess.run([*orch, *words], env=env, check=False, capture_output=True)

        try:
            for number in range(1, crashes + 1):
                call("run", "--detach")
                name = f"bench-{number}"
                arrived = receiver.wait_for(
                    where=lambda one, name=name: one.json["alerts"][0]["labels"]["run"] == name,
                    timeout_s=60,
                )[0]
                stamp = float((root / workdir.lstrip("/") / "stamp").read_text())
                found.append(arrived.at - stamp)
                call("stop", name, "--grace", "1")
        finally:
            call("daemon", "stop")
            ended = ["tmux", "kill-session", "-t", "=bench"]
            subprocess.run(ended, env=env, check=False, capture_output=True)
    return found


def main() -> None:
    """Print one JSON line for each place and form."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--crashes", type=int, default=20)
    parser.add_argument("--place", choices=("local", "lab"), action="append")
    options = parser.parse_args()
    for where in options.place or ("local", "lab"):
        for form in ("hang", "crash"):
            seconds = sorted(measure(where, form, options.crashes))
            line = {
                "place": where,
                "form": form,
                "crashes": len(seconds),
                "p50_s": round(statistics.median(seconds), 3),
                "p99_s": round(seconds[min(len(seconds) - 1, int(0.99 * len(seconds)))], 3),
                "max_s": round(seconds[-1], 3),
            }
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
