"""`make lab`: a lab by hand. Brings up a host with two containers and waits for Ctrl-C."""

from __future__ import annotations

import argparse
import signal
import sys
from types import FrameType

from tests.lab.lab import Lab, LabUnavailableError

JOBS = """\
jobs:
  crash:
    target: ct200
    package: {jobs}/played
    workdir: /srv/orch/crash
    command: python3 -m played fx_race_crash --pause 0.02
    session: crash
  healthy:
    target: ct201
    package: {jobs}/played
    workdir: /srv/orch/healthy
    command: python3 -m played steps --count 0 --pause 1
    session: healthy
"""
HOW = """\
The lab is up: host {name}, containers {containers}. Its inventory: {inventory}

    export ORCH_CONFIG={inventory}
    orch deploy crash && orch run crash
    {ssh} pct list
    {ssh} pct exec 200 -- tmux ls

GPU samples (all idle) are in {gpu}; every program of the lab is in {jobs}/played.
Ctrl-C takes it down."""


def _end(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> int:
    """Run the lab until Ctrl-C or SIGTERM; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab", description=__doc__)
    parser.add_argument("--netns", action="store_true", help="a host with a network of its own")
    parser.add_argument("--gpus", type=int, default=8, help="GPUs that the stand-ins show")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, _end)
    try:
        lab = Lab.start(netns=options.netns)
    except LabUnavailableError as why:
        print(why, file=sys.stderr)
        return 1
    # A shell's background jobs ignore Ctrl-C, and so would we.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        lab.gpus.set_idle(options.gpus)
        inventory = lab.folder / "inventory.yaml"
        inventory.write_text(lab.inventory_yaml() + JOBS.format(jobs=lab.folder / "jobs"))
        print(inventory.read_text())
        print(
            HOW.format(
                name=lab.host.name,
                containers=", ".join(lab.containers),
                inventory=inventory,
                ssh=" ".join(lab.host.ssh_argv()),
                gpu=lab.gpus.folder / "samples",
                jobs=lab.folder / "jobs",
            ),
            flush=True,
        )
        signal.pause()
    except KeyboardInterrupt:
        pass  # the way to end it
    finally:
        lab.stop()
    print("\nThe lab is gone.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
