"""Side by side in one run: orch, rsync with a fresh connection and over ControlMaster, tar, peers.

    python -m bench.deploy [small] [many] [first] [--firsts N] [--repeats N] [--peers] [--json FILE]
        [--orch FILE]

Needs the lab (root). `orch deploy` is the whole command with a daemon that runs already; `orch` is
the daemon's part of it, from its request to its last word: walk, hash, plan, send, verify, switch.
small: 40 files of 600 KB in all; many: 5000 files of 20 MB; first: 400 files of 200 MB. Of each
first deploys, as many as `--firsts` says: every way into an empty place, in an order that moves on
by one each time, all of the package touched before, so that nobody knows its hashes. Then, but of
the 200 MB, `--repeats` one-line changes. The peak memory is that of the first deploys.
`--peers`: pyinfra and Ansible too (small only: they take minutes for thousands of files).
`--orch`: another `orch` than the one beside this Python. One of `pip install .` starts 20 ms sooner
than one of `pip install -e .`, whose finder loads much at each start.
Prints one line for each case with the median in seconds of every way, and the ratios aimed at.
"""

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.deploy import memory, peers
from bench.deploy.ways import CONTAINER, ORCH, Way, Ways
from tests.lab.lab import Lab

CASES = {"small": (40, 600_000), "many": (5000, 20_000_000), "first": (400, 200_000_000)}
"""Name -> files, bytes in all."""

SETTLE_S = 1.0
CHANGE_RATIOS = (("orch deploy", "rsync fresh", 0.5), ("orch", "rsync ControlMaster", 1.0))
FIRST_RATIOS = (("orch deploy", "tar", 1.2), ("orch", "tar", 1.2))
"""What is held against what, and what is aimed at."""


def write_package(folder: Path, *, files: int, total_bytes: int) -> None:
    """Files of one size, half of each compressible, in folders of fifty."""
    size = total_bytes // files
    for number in range(files):
        path = folder / f"part{number // 50}" / f"m{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(size // 2) + b"x = 1\n" * (size // 12))


async def timed(way: Way) -> float:
    """Seconds of one go, once what the goes before it began has ended and is on the disk."""
    await asyncio.sleep(SETTLE_S)
    os.sync()
    begun = time.perf_counter()
    await way()
    return time.perf_counter() - begun


def touch(package: Path) -> None:
    """Make every file one that was never hashed."""
    for path in package.rglob("*.py"):
        found = path.stat()
        os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))  # its change time is new


class Bench:
    """All cases in one lab; `found` is what `--json` gets."""

    def __init__(self, lab: Lab, scratch: Path, options: argparse.Namespace) -> None:
        self._lab, self._scratch, self._options = lab, scratch, options
        self.found: list[dict[str, Any]] = []

    async def case(self, name: str) -> None:
        """First deploys and one-line changes of one package, every way in turn."""
        package = self._scratch / name
        files, total = CASES[name]
        write_package(package, files=files, total_bytes=total)
        places, orch = self._options.firsts, self._options.orch
        async with Ways(self._lab, package, self._scratch, places=places, orch=orch) as ways:
            every: dict[str, Way] = {
                "orch deploy": ways.command,
                "orch": ways.orch,
                "rsync fresh": ways.rsync(master=False),
                "rsync ControlMaster": ways.rsync(master=True),
                "tar": ways.tar,
            }
            if self._options.peers and name == "small" and (programs := peers.installed()):
                every |= peers.ways(self._lab, package, self._scratch, programs)
            async with memory.watched(ways.daemon, self._lab[CONTAINER].init_pid) as peak:
                await self._firsts(name, package, every, ways)
            mib = {"daemon": peak.daemon / 2**20, "probe": peak.probe / 2**20}
            self._report(f"{name}: peak memory of first deploys, MiB", mib, (), digits=0)
            if name != "first":
                await self._changes(name, package, every)

    async def _firsts(self, name: str, package: Path, every: dict[str, Way], ways: Ways) -> None:
        taken: dict[str, list[float]] = {label: [] for label in every}
        for number in range(self._options.firsts):
            if number:
                ways.fresh()
            labels = [*every]
            for label in labels[number % len(labels) :] + labels[: number % len(labels)]:
                touch(package)
                taken[label].append(await timed(every[label]))
        files, total = CASES[name]
        seconds = {label: statistics.median(times) for label, times in taken.items()}
        what = f"{name}: first deploy of {files} files, {total / 1e6:g} MB"
        self._report(what, seconds, FIRST_RATIOS)

    async def _changes(self, name: str, package: Path, every: dict[str, Way]) -> None:
        taken: dict[str, list[float]] = {label: [] for label in every}
        for number in range(self._options.repeats):
            for label, way in every.items():
                with open(package / "part0" / "m7.py", "a") as file:
                    file.write(f"y = {number}  # {label}\n")
                taken[label].append(await timed(way))
        seconds = {label: statistics.median(times) for label, times in taken.items()}
        what = f"{name}: one-line change in {CASES[name][0]} files"
        self._report(what, seconds, CHANGE_RATIOS)

    def _report(
        self,
        what: str,
        values: dict[str, float],
        ratios: tuple[tuple[str, str, float], ...],
        *,
        digits: int = 3,
    ) -> None:
        shown = "  ".join(f"{label} {value:.{digits}f}" for label, value in values.items())
        print(f"{what}:  {shown}", flush=True)
        reached = []
        for ours, theirs, aim in ratios:
            ratio = values[ours] / values[theirs]
            reached.append({"ours": ours, "theirs": theirs, "ratio": ratio, "aim": aim})
            print(f"    {ours} / {theirs}: {ratio:.2f} (aim: {aim} or less)", flush=True)
        self.found.append({"what": what, "values": values, "ratios": reached})


async def main(options: argparse.Namespace) -> None:
    """All chosen cases in one lab."""
    with Lab.start(containers=(CONTAINER,)) as lab, tempfile.TemporaryDirectory() as folder:
        print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
        bench = Bench(lab, Path(folder), options)
        for name in options.cases or CASES:
            await bench.case(name)
    if options.json:
        Path(options.json).write_text(json.dumps(bench.found, indent=2) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.deploy")
    parser.add_argument("cases", metavar="CASE", nargs="*", help=", ".join(CASES))
    parser.add_argument("--firsts", metavar="N", type=int, default=5)
    parser.add_argument("--repeats", metavar="N", type=int, default=7)
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--orch", metavar="FILE", default=ORCH[0])

    asyncio.run(main(parser.parse_args()))
