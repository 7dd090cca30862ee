"""Random faults while a run prints: nothing lost, nothing twice, nothing ended wrongly.

    python -m bench.observe.soak [FAULTS [SEED]] [--json FILE]  (default: 200 faults; root, the lab)

Each fault is drawn from a seeded list: kill -9 of the daemon, of the probe, of what holds it on its
host, of the tmux server, of sshd; the cable cut and plugged in again; the container stopped and
started (which ends its run as lost, and begins the next). At the end every run's stored log is
compared with its file. Two hundred take about ten minutes on a machine that does nothing else.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.observe.cost import own_orch
from bench.observe.figures import keep, show
from tests.acceptance.conftest import Orch, lab_job
from tests.lab import cgroups
from tests.lab.lab import Lab

FAULTS = 200
BETWEEN_S = (0.1, 1.5)
CUT_S = (0.2, 8.0)
SETTLED_WITHIN_S = 90.0
LOG_LINES = 60
"""Of the daemon, where something is wrong."""
WEIGHTS = {"daemon": 4, "probe": 5, "holder": 2, "tmux": 2, "sshd": 4, "cable": 4, "container": 1}


@dataclass(slots=True)
class Soak:
    """One seeded series of faults against a job of container 200."""

    lab: Lab
    orch: Orch
    seed: int
    runs: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    stopped: set[str] = field(default_factory=set)
    """Runs whose container was stopped under them."""

    def run(self, faults: int) -> dict[str, Any]:
        """All faults, and then the comparison; AssertionError names what is wrong."""
        chance = random.Random(self.seed)
        self._launch()
        for _ in range(faults):
            time.sleep(chance.uniform(*BETWEEN_S))
            (fault,) = chance.choices(list(WEIGHTS), list(WEIGHTS.values()))
            self.counts[fault] += 1
            getattr(self, f"_{fault}")(chance)
        return self._compare()

    def _launch(self) -> None:
        self.runs.append(self.orch.json("run", "--detach")["run"])

    # --- faults ----------------------------------------------------------------------------------

    def _daemon(self, _chance: random.Random) -> None:
        pid = self.orch.json("daemon", "status", check=None)["pid"]
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
        self.orch("daemon", "start")

    def _probe(self, _chance: random.Random) -> None:
        self._kill(" serve --generation")

    def _holder(self, _chance: random.Random) -> None:
        for pid in cgroups.pids(self.lab.host.cgroup):
            words = _words(pid)
            if "hold" in words and "-I" in words:
                _kill(pid)

    def _tmux(self, _chance: random.Random) -> None:
        self._kill("tmux")

    def _kill(self, command: str) -> None:
        for pid in self.lab["200"].pids(running=command):
            _kill(pid)

    def _sshd(self, chance: random.Random) -> None:
        self.lab.host.kill_sshd()
        time.sleep(chance.uniform(0.0, 1.0))
        self.lab.host.start_sshd()

    def _cable(self, chance: random.Random) -> None:
        self.lab.host.cut()
        time.sleep(chance.uniform(*CUT_S))
        self.lab.host.restore()

    def _container(self, _chance: random.Random) -> None:
        """Its run is lost with it, and must be called so; then the next one begins."""
        run = self.runs[-1]
        self.stopped.add(run)
        self.lab["200"].stop()
        self.lab["200"].start()
        self._until(lambda: self._state(run) == "lost", f"{run} is lost")
        self._launch()

    # --- what must hold --------------------------------------------------------------------------

    def _state(self, run: str) -> str:
        return str(self.orch.json("show", run)["state"])

    def _until(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + SETTLED_WITHIN_S
        while not holds():
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {SETTLED_WITHIN_S:g} s: {what}")
            time.sleep(0.1)

    def _compare(self) -> dict[str, Any]:
        last = self.runs[-1]
        self._until(lambda: self._state(last) == "running", f"{last} is seen to run")
        self.orch("stop", last)
        total = 0
        for run in self.runs:
            view = self.orch.json("show", run)
            wanted = "lost" if run in self.stopped else "stopped"
            assert view["state"] == wanted, f"{run} is {view['state']}, not {wanted}"
            file = self.lab["200"].root / view["directory"].lstrip("/") / "attempt-1/output.log"
            # Read as text, `orch logs --raw` has its line ends made one.
            written = file.read_bytes().replace(b"\r\n", b"\n")
            stored = self.orch("logs", run, "--raw").stdout.encode()
            assert stored == written, f"{run}: {len(stored)} bytes stored, {len(written)} written"
            total += len(written)
        return {
            "seed": self.seed,
            "faults": dict(self.counts),
            "runs": len(self.runs),
            "bytes": total,
            "lost": 0,
            "twice": 0,
        }


def _words(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return []  # it ended


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def main() -> None:
    """A lab, a daemon of its own, and the faults."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.observe.soak", description="Random faults while a run prints."
    )
    parser.add_argument("faults", nargs="?", type=int, default=FAULTS, metavar="FAULTS")
    parser.add_argument("seed", nargs="?", type=int, default=20_26, metavar="SEED")
    parser.add_argument("--json", metavar="FILE", help="write the figures there as well")
    words = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="orch-") as name, Lab.start(netns=True) as lab:
        orch = own_orch(Path(name), lab_job(lab, STEPS))
        try:
            begun = time.monotonic()
            found = Soak(lab, orch, words.seed).run(words.faults)
            found["seconds"] = round(time.monotonic() - begun)
            show([found], as_json=False)
            keep(words.json, found)
        except AssertionError:
            print("\n".join(orch.log().splitlines()[-LOG_LINES:]), file=sys.stderr)
            raise
        finally:
            orch("daemon", "stop", check=None)


STEPS = "python3 -m played steps --count 0 --pause 0.02"

if __name__ == "__main__":
    main()
