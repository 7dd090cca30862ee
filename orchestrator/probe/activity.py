"""Ops `activity` and `dump`: whether the processes of a run do anything, and where they stand.

Reads /proc; py-spy, where it is there, tells the Python stacks, and NCCL what it waits for.
Changes nothing.
"""

import os
import platform
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from . import join, procfs, ras
from .belonging import Belonging
from .frames import Frame
from .ops import Progress

LONGEST_S = 30.0
MOST_PROCESSES = 64
MOST_THREADS = 64
STACK_WITHIN_S = 20.0
STACK_CHARS = 64 * 1024
TOGETHER = 4
_SMI_CHARS = 256 * 1024
_TICKS = os.sysconf("SC_CLK_TCK")


def activity(args: Frame, _progress: Progress) -> Frame:
    """CPU that the run used over `over_s` seconds, in cores, and its processes after that."""
    belonging = _belonging(args)
    begun, before = time.monotonic(), _ticks(belonging)
    time.sleep(min(float(args["over_s"]), LONGEST_S))
    after = _ticks(belonging)
    passed_s = time.monotonic() - begun
    used = sum(ticks - before.get(key, 0) for key, ticks in after.items())
    pids = sorted(pid for pid, _ in after)[:MOST_PROCESSES]
    return {
        "over_s": passed_s,
        "cpu_cores": used / _TICKS / passed_s,
        "processes": [_process(pid) for pid in pids],
    }


def dump(args: Frame, _progress: Progress) -> Frame:
    """Every process of the run with its threads and, with py-spy, its Python stacks.

    Without `attempt_dir`, as on a host, its processes are known by their environment alone.
    """
    py_spy = _find_py_spy(list(args.get("folders") or ()))
    living = _belonging(args).living()
    found = [_process(pid) for pid in sorted(living)[:MOST_PROCESSES]]
    for one in found:
        one["threads"] = _threads(one["pid"])
    if py_spy is not None:
        pythons = [one for one in found if "python" in _program(one["pid"])]
        with ThreadPoolExecutor(TOGETHER) as pool:
            asked = [(one, pool.submit(_stacks, py_spy, one["pid"])) for one in pythons]
        for one, answer in asked:
            one.update(answer.result())
    told = [procfs.environment(one["pid"]).get("NCCL_RAS_ADDR", "") for one in found]
    return {
        "py_spy": py_spy,
        "processes": found,
        "nvidia_smi": _nvidia_smi(),
        "nccl": ras.status(told),
        "machine": platform.machine(),
        "tools": tools_folder(),
    }


def tools_folder() -> str:
    """Where a daemon may leave a program for us: beside this probe."""
    return os.path.join(os.path.dirname(os.path.realpath(sys.argv[0])), "tools")


def _belonging(args: Frame) -> Belonging:
    return Belonging(args["run"], args["uid"], args.get("attempt_dir"), set())


def _ticks(belonging: Belonging) -> dict[tuple[int, int], int]:
    """CPU time of each process of the run, in clock ticks, by PID and start."""
    found = {}
    for pid, entry in belonging.living().items():
        used = procfs.cpu_ticks(pid)
        if used is not None:
            found[pid, entry.start] = used
    return found


def _process(pid: int) -> Frame:
    entry = procfs.stat(pid)
    rank = procfs.environment(pid).get("RANK")
    return {
        "pid": pid,
        "container_pid": join.pid_inside(pid),
        "command": procfs.command_line(pid),
        "state": entry.state if entry else None,
        "wchan": _text(f"/proc/{pid}/wchan"),
        "rank": int(rank) if rank is not None and rank.isdigit() else None,
    }


def _threads(pid: int) -> list[Frame]:
    try:
        names = sorted(os.listdir(f"/proc/{pid}/task"), key=int)[:MOST_THREADS]
    except OSError:
        return []
    return [
        {
            "tid": int(name),
            "name": _text(f"/proc/{pid}/task/{name}/comm"),
            "wchan": _text(f"/proc/{pid}/task/{name}/wchan"),
        }
        for name in names
    ]


def _program(pid: int) -> str:
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        return ""


def _find_py_spy(folders: list[str]) -> str | None:
    folders = [*folders, tools_folder()]
    return shutil.which("py-spy", path=os.pathsep.join([*folders, os.environ.get("PATH", "")]))


def _stacks(py_spy: str, pid: int) -> Frame:
    """`stacks`, or `complaint` where py-spy may not look or cannot read that Python."""
    argv = [py_spy, "dump", "--pid", str(pid)]
    try:
        done = subprocess.run(argv, capture_output=True, timeout=STACK_WITHIN_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as exc:
        return {"complaint": f"py-spy: {exc}"}
    if done.returncode != 0:
        return {"complaint": done.stderr.decode("utf-8", "replace")[:STACK_CHARS]}
    return {"stacks": done.stdout.decode("utf-8", "replace")[:STACK_CHARS]}


def _nvidia_smi() -> str | None:
    try:
        done = subprocess.run(
            ["nvidia-smi", "-q"], capture_output=True, timeout=STACK_WITHIN_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace")[:_SMI_CHARS]


def _text(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(200).strip() or None
    except OSError:
        return None


OPS = {"activity": activity, "dump": dump}
