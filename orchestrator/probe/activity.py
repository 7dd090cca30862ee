"""Ops `activity` and `dump`: whether the processes of a run do anything, and where they stand.

Reads /proc; py-spy, where it is there, tells the Python stacks. Changes nothing.
"""

import os
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

from . import procfs
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
    """Every process of the run with its threads and, with py-spy, its Python stacks."""
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
            one["stacks"] = answer.result()
    return {"py_spy": py_spy, "processes": found, "nvidia_smi": _nvidia_smi()}


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
    return shutil.which("py-spy", path=os.pathsep.join([*folders, os.environ.get("PATH", "")]))


def _stacks(py_spy: str, pid: int) -> str:
    """py-spy's words; where it may not look, its complaint."""
    argv = [py_spy, "dump", "--pid", str(pid)]
    try:
        done = subprocess.run(argv, capture_output=True, timeout=STACK_WITHIN_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as exc:
        return f"py-spy: {exc}"
    said = done.stdout if done.returncode == 0 else done.stderr
    return said.decode("utf-8", "replace")[:STACK_CHARS]


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
