"""How fresh a stored line is, and what that costs: one host, many containers, 10 lines/s each.

    python -m bench.observe.freshness [CONTAINERS ...] [--json FILE] [--only PART ...]
                                                                    (default: 1 20 100; root, lab)

The containers are real, behind one sshd with its defaults, over a cable of its own; links,
readers and store are the daemon's, in this one process, whose CPU and memory are counted. A column
for each count of containers: line written -> stored in ms; CPU in parts of a core; bytes on the
cable against bytes logged; seconds from a cable plugged in again until of every run a line is
stored that was written behind the cut, and how many probes that cost. Last come the owner's own
way and ControlMaster polling, on the same host: how many containers two cores could look at once
a second. The daemon's own cost is bench.observe.cost's.
"""

import argparse
import asyncio
import os
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from bench.observe.figures import keep, show
from orchestrator.clock import SystemClock
from orchestrator.core.model import Host, Job, LinkState, Run, RunState, Target
from orchestrator.launch.session import attempt_dir, end, launch, launch_spec
from orchestrator.link.link import Link
from orchestrator.observe.follow import follow
from orchestrator.reading import Reader
from orchestrator.store.store import Store
from orchestrator.transport.pool import Pool
from tests.lab.declared import declared
from tests.lab.lab import Lab

PARTS = ("steady", "cuts", "other")
MEASURED_S = 20.0
CUTS_S = (5.0, 45.0)
"""The first is shorter than what ends a connection, the second is not."""
CAUGHT_UP_WITHIN_S = 60.0
POLLS = 10
LINES_PER_S = 10
PROGRAM = (
    "import time, sys\n"
    "while True:\n"
    "    print(f'step at {time.time():.6f} loss 2.34567 tokens/s 123456.7', flush=True)\n"
    f"    time.sleep({1 / LINES_PER_S})\n"
)
OWNERS_LOOK = (
    "pct exec {container} -- bash -c 'tmux capture-pane -t {session} -p -S -10;"
    " nvidia-smi --query-gpu=index,memory.used,utilization.gpu --format=csv,noheader'"
)


@dataclass(slots=True)
class Watched:
    """One container's run, and what was measured of it."""

    link: Link
    job: Job
    run: Run
    delays_s: list[float] = field(default_factory=list)
    logged_bytes: int = 0
    newest_written_at: float = 0.0
    """When the newest line that is stored was written, by its own word."""


class TimedLogs:
    """The store's logs; notes how old each line is once it is stored."""

    def __init__(self, logs: Any, watched: dict[str, Watched]) -> None:
        self._logs, self._watched = logs, watched

    def __getattr__(self, name: str) -> Any:
        return getattr(self._logs, name)

    def append(self, run: str, attempt: int, offset: int, chunk: bytes, at: float) -> Any:
        """Store, and then look at the clock."""
        kept = self._logs.append(run, attempt, offset, chunk, at)
        now, one = time.time(), self._watched[run]
        one.logged_bytes += len(kept.fresh)
        for line in kept.fresh.split(b"\n"):
            words = line.split()
            if len(words) > 2 and words[0] == b"step":
                one.newest_written_at = float(words[2])
                one.delays_s.append(now - one.newest_written_at)
        return kept


async def measure(lab: Lab, folder: Path, parts: Collection[str]) -> dict[str, Any]:
    """All containers of a lab, watched at once; `parts` of PARTS."""
    clock, pool = SystemClock(), Pool(lasting=True)
    store = await Store.open(folder, clock)
    watched: dict[str, Watched] = {}
    setattr(store, "logs", TimedLogs(store.logs, watched))  # noqa: B010  a proxy that measures
    host = declared(lab)
    begun = time.monotonic()
    links = [_link(pool, host, name, clock) for name in lab.containers]
    await asyncio.gather(*(_connected(link) for link in links))
    connected_s = time.monotonic() - begun
    for link in links:
        one = await _launched(store, link)
        watched[one.run.id] = one
    readers = [asyncio.create_task(_read(store, one)) for one in watched.values()]
    found = {"containers": len(links), "connected_s": round(connected_s, 2)}
    if "steady" in parts:
        found |= await _steady(lab, watched)
    if "cuts" in parts:
        for cut_s in CUTS_S:
            found |= await _resume(lab, watched, cut_s)
    for reader in readers:
        reader.cancel()
    await asyncio.gather(*readers, return_exceptions=True)
    # The lab's own end takes what could not be ended on a crowded host.
    ends = (end(one.link, one.job, one.run, grace_s=0.0) for one in watched.values())
    await asyncio.gather(*ends, return_exceptions=True)
    await asyncio.gather(*(link.close() for link in links))
    await pool.close()
    await store.close()
    return found


def _link(pool: Pool, host: Host, name: str, clock: SystemClock) -> Link:
    target = Target(name=f"ct{name}", host=host, runtime="pct", container=name)
    return Link(target, pool.transport(target), clock, "bench")


async def _connected(link: Link) -> None:
    """As the daemon does it: a first attempt that fails on a crowded host is followed by more."""
    link.begin()
    while link.state is not LinkState.CONNECTED:
        await asyncio.sleep(0.05)


async def _launched(store: Store, link: Link) -> Watched:
    name = link.target.name
    job = Job(
        name=name,
        targets=(link.target,),
        command=("python3", "-u", "-c", PROGRAM),
        workdir="/srv/orch/bench",
        session="bench",
    )
    draft = Run(
        id="",
        uid="bench",
        job=name,
        target=name,
        number=0,
        state=RunState.STARTING,
        attempt=1,
        session="bench",
        directory="/srv/orch/bench/runs/{id}.bench",
    )
    run = await store.runs.create(draft)
    await launch(link, launch_spec(job, run, None, {}))
    return Watched(link=link, job=job, run=run)


async def _read(store: Store, one: Watched) -> None:
    reader = Reader(store, one.run, one.job, (), SystemClock())
    follower = await follow(one.link, one.run, attempt_dir(one.run), clock=SystemClock())
    async for _ in reader.events(follower):
        pass


async def _steady(lab: Lab, watched: dict[str, Watched]) -> dict[str, Any]:
    await _caught_up(watched)
    for one in watched.values():
        one.delays_s.clear()
        one.logged_bytes = 0
    probes = _probes(lab)
    before, wire, there = _cpu_s([psutil.Process()]), _wire_bytes(lab), _lab_cpu_s(lab)
    probes_before, begun = _cpu_s(probes), time.monotonic()
    await asyncio.sleep(MEASURED_S)
    passed_s = time.monotonic() - begun
    delays = sorted(delay for one in watched.values() for delay in one.delays_s)
    logged = sum(one.logged_bytes for one in watched.values())
    cores = (_cpu_s([psutil.Process()]) - before + _lab_cpu_s(lab) - there) / passed_s
    return {
        "lines": len(delays),
        "lines_per_s": round(len(delays) / passed_s, 1),
        "p50_ms": round(1000 * statistics.median(delays), 1),
        "p99_ms": round(1000 * delays[int(len(delays) * 0.99)], 1),
        "worst_ms": round(1000 * delays[-1], 1),
        "daemon_cores": round((_cpu_s([psutil.Process()]) - before) / passed_s, 3),
        "daemon_mb": round(psutil.Process().memory_info().rss / 1e6, 1),
        "probe_cores": round((_cpu_s(probes) - probes_before) / passed_s / len(probes), 4),
        "probe_mb": round(max(one.memory_info().rss for one in probes) / 1e6, 1),
        "cores_a_container": round(cores / len(watched), 4),
        "wire_per_logged": round((_wire_bytes(lab) - wire) / logged, 2),
        "load": [round(one, 1) for one in os.getloadavg()],
    }


async def _caught_up(watched: dict[str, Watched]) -> None:
    begun = time.monotonic()
    while time.monotonic() - begun < CAUGHT_UP_WITHIN_S and not _is_fresh(watched):
        await asyncio.sleep(0.1)


def _is_fresh(watched: dict[str, Watched]) -> bool:
    """Whether what was printed while the others were launched is stored."""
    return all(one.delays_s and one.delays_s[-1] < 1.0 for one in watched.values())


async def _resume(lab: Lab, watched: dict[str, Watched], cut_s: float) -> dict[str, Any]:
    """Seconds from the cable's return until every run has a line stored that is newer."""
    await _caught_up(watched)
    before = _pids(lab)
    lab.host.cut()
    await asyncio.sleep(cut_s)
    lab.host.restore()
    begun = time.time()
    while any(one.newest_written_at < begun for one in watched.values()):
        await asyncio.sleep(0.01)
        if time.time() - begun > 120:
            break
    passed_s = round(time.time() - begun, 2)
    anew = len(_pids(lab) - before)
    return {f"resume_after_{cut_s:g}s_cut_s": passed_s, f"started_anew_after_{cut_s:g}s_cut": anew}


def _pids(lab: Lab) -> set[int]:
    return {pid for one in lab.containers.values() for pid in one.pids(running=" serve ")}


def _probes(lab: Lab) -> list[psutil.Process]:
    return [psutil.Process(pid) for pid in _pids(lab)]


def _cpu_s(ones: Sequence[psutil.Process]) -> float:
    times = [one.cpu_times() for one in ones]
    return sum(one.user + one.system for one in times)


def _wire_bytes(lab: Lab) -> int:
    counters = psutil.net_io_counters(pernic=True)[lab.host.link]
    return int(counters.bytes_sent + counters.bytes_recv)


def polling(lab: Lab, *, control_master: bool, folder: Path) -> dict[str, Any]:
    """The owner's look, again and again, and how many containers it would do for at 1 s."""
    name = next(iter(lab.containers))
    lab.gpus.set_idle(8)
    lab[name].run(["tmux", "kill-server"], check=False)
    lab[name].run(["tmux", "new-session", "-d", "-s", "bench", "sleep 600"])
    look = OWNERS_LOOK.format(container=name, session="bench")
    argv = lab.host.ssh_argv(look)
    if control_master:
        words = ["ControlMaster=auto", f"ControlPath={folder}/cm", "ControlPersist=60"]
        argv[1:1] = [part for word in words for part in ("-o", word)]
        subprocess.run(argv, capture_output=True, check=True)
    there, here = _lab_cpu_s(lab), _children_s()
    walls = []
    for _ in range(POLLS):
        begun = time.monotonic()
        subprocess.run(argv, capture_output=True, check=True)
        walls.append(time.monotonic() - begun)
    cpu_s = (_lab_cpu_s(lab) - there + _children_s() - here) / POLLS
    lab[name].run(["tmux", "kill-server"], check=False)
    return {
        "way": "ControlMaster" if control_master else "a fresh ssh each time",
        "look_ms": round(1000 * statistics.median(walls), 1),
        "cpu_ms": round(1000 * cpu_s, 1),
        "containers_at_1s_on_2_cores": int(2 / cpu_s),
    }


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _lab_cpu_s(lab: Lab) -> float:
    for path in Path("/sys/fs/cgroup").glob(f"*/{lab.host.cgroup}/cpuacct.usage"):
        return int(path.read_text()) / 1e9
    raise SystemExit("this machine mounts no cpuacct hierarchy")


def main() -> None:
    """Each count of containers in a lab of its own, and the other ways beside a single one."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.observe.freshness",
        description="How fresh a stored line is, and what that costs.",
    )
    parser.add_argument("containers", nargs="*", type=int, default=[1, 20, 100], metavar="N")
    parser.add_argument("--json", metavar="FILE", help="write the figures there as well")
    parser.add_argument(
        "--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART", help=", ".join(PARTS)
    )
    words = parser.parse_args()
    rows: list[dict[str, Any]] = []
    ways: list[dict[str, Any]] = []
    for count in words.containers:
        names = [str(200 + number) for number in range(count)]
        with tempfile.TemporaryDirectory() as folder:
            _one_lab(names, Path(folder), words.only, rows, ways)
    if ways and "steady" in words.only:
        rows[0]["containers_at_1s_on_2_cores"] = int(2 / (rows[0]["cores_a_container"]))
    for table in filter(None, (rows, ways)):
        show(table, as_json=False)
    keep(words.json, {"freshness": rows, "other_ways": ways})


def _one_lab(
    names: list[str],
    folder: Path,
    parts: Collection[str],
    rows: list[dict[str, Any]],
    ways: list[dict[str, Any]],
) -> None:
    with Lab.start(containers=names, unprivileged=(), proxmox_cgroup=(), netns=True) as lab:
        if {"steady", "cuts"} & set(parts):
            rows.append(asyncio.run(measure(lab, folder, parts)))
        if len(names) == 1 and "other" in parts:
            ways += [polling(lab, control_master=one, folder=folder) for one in (False, True)]


if __name__ == "__main__":
    main()
