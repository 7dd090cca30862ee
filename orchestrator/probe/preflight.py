"""Op `preflight`: everything that must be true here before a launch, looked at at once.

Owns the checks of the target itself and their remedies. Each is on its own: one that cannot be
made is a failed check with the reason, never the end of the others. Stdlib only, Python 3.10.
"""

import errno
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from typing import Any

from . import gpus, leftovers, logind
from .clean_env import run_environment
from .environment import cache_folders
from .frames import Frame
from .held import held_by
from .looks import LOOKS, check, size
from .ops import Progress
from .tmux import Session, Tmux

Checks = list[Frame]

SKEW_S = 60.0
_PYTHON_WITHIN_S = 30.0
_VERSIONS = """
import importlib.metadata, json, sys
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        found[name] = None
print(json.dumps(found))
"""


def preflight(args: Frame, _progress: Progress) -> Frame:
    """All checks, the versions of the packages asked for (None: not installed), and held GPUs."""
    wanted = args["checks"]
    checks: Checks = []
    held: list[Frame] = []
    for name, look in _LOOKS.items():
        if name in wanted:
            try:
                checks += look(wanted[name])
            except Exception as exc:  # noqa: BLE001  a check that breaks must not hide the others
                checks.append(check(name, False, f"could not be looked at: {exc}"))
    session_free = all(item["ok"] for item in checks if item["name"] == "session")
    if "leftovers" in wanted:
        checks.append(_leftovers(wanted["leftovers"], may_stop=session_free))
    if "gpus" in wanted:
        found, held = _gpus(wanted["gpus"])
        checks.append(found)
    versions, python = _python(wanted["python"])
    return {"checks": [*checks, python], "versions": versions, "held": held}


def _tmux(_wanted: Frame) -> Checks:
    path = shutil.which("tmux")
    text = f"tmux is {path}" if path else "tmux is not installed here"
    return [check("tmux", path is not None, text, "Install it: apt-get install tmux.")]


def _logind(_wanted: Frame) -> Checks:
    """Only where it matters: most systems leave a user's processes alone."""
    if not logind.kills_at_logout():
        return []
    user = logind.user()
    text = f"logind ends what {user} runs at logout"
    if logind.lingers():
        return [check("logind", True, f"{text}; runs start in a scope of their own")]
    remedy = f"Let the user linger: loginctl enable-linger {user}."
    return [check("logind", False, f"{text}, a run included", remedy, critical=False)]


def _session(wanted: Frame) -> Checks:
    """A dead session of ours is replaced; a living one, or anybody else's, refuses."""
    name = wanted["name"]
    if shutil.which("tmux") is None:
        return []
    found = Tmux(wanted.get("socket")).find(name)
    if found is None:
        return [check("session", True, f"no tmux session is called {name}")]
    if found.run is None:
        return [
            check(
                "session", False, f"a tmux session {name} is there, and orch did not start it",
                f"End it (tmux kill-session -t {name}), or give the job another `session`.",
            )
        ]  # fmt: skip
    if found.uid == wanted.get("uid"):
        return [check("session", True, f"the session {name} is this run's own")]
    if found.dead:
        return [check("session", True, f"the session {name} of {found.run} has ended")]
    return [_of_another(wanted, found)]


def _of_another(wanted: Frame, found: Session) -> Frame:
    """A session of a living run: one of this job, or one of another job or project."""
    name, workdir, place = wanted["name"], wanted.get("workdir"), found.attempt_dir
    there = f"stop that run with the inventory that it is from (there: orch stop {found.run})."
    if workdir and place and not place.startswith(workdir.rstrip("/") + "/"):
        return check(
            "session", False,
            f"the session {name} belongs to {found.run} of another job or project, whose "
            f"folder is {os.path.dirname(place)}, and which still runs",
            f"Give this job another `session`, or {there}",
        )  # fmt: skip
    if place and found.run not in wanted.get("live", ()):
        return check(
            "session", False,
            f"the session {name} belongs to {found.run}, which still runs in this workdir "
            f"and is none of the job's runs here: another project has the same `workdir`, or "
            f"the state of this one was lost",
            f"Give each project a `workdir` and a `session` of its own, or {there} Where this "
            f"project's own state was lost: orch stop {found.run} --target TARGET.",
        )  # fmt: skip
    return check(
        "session", False, f"the session {name} belongs to {found.run}, which still runs",
        f"Stop it (orch stop {found.run}), or run with --replace.",
    )  # fmt: skip


def _leftovers(wanted: Frame, *, may_stop: bool) -> Frame:
    """Processes of earlier runs of the job that nobody watches any more."""
    found = leftovers.of_job(wanted["job"], wanted["workdir"], wanted.get("uid"))
    alive = [item for item in found if item.run in wanted.get("live", ())]
    if alive and may_stop:
        return _still_alive(alive)
    found = [item for item in found if item not in alive]
    if found and wanted["policy"] == "stop" and may_stop:
        stopped = len(found)
        found = leftovers.stop(found)
        if not found:
            return check("processes", True, f"stopped {stopped} left of earlier runs")
    if not found:
        return check("processes", True, "nothing is left of earlier runs")
    shown = ", ".join(f"{item.pid} ({item.run}: {item.command[:80]})" for item in found[:8])
    pids = " ".join(str(item.pid) for item in found)
    return check(
        "processes",
        wanted["policy"] == "ignore",
        f"{len(found)} left of earlier runs: {shown}",
        f"Run with --replace, end them (kill {pids}), or say `stale_processes: stop`.",
    )


def _still_alive(found: list[leftovers.Leftover]) -> Frame:
    """A run goes on although its session is gone: its processes are nobody's leftovers."""
    runs = ", ".join(sorted({item.run for item in found}))
    pids = ", ".join(str(item.pid) for item in found)
    return check(
        "processes",
        False,
        f"{runs} still runs without its tmux session, as {pids}",
        f"Stop it (orch stop {runs.partition(',')[0]}), or run with --replace.",
    )


def _gpus(wanted: Frame) -> tuple[Frame, list[Frame]]:
    """The check, and the GPUs that are held, so that the host can be asked by whom."""
    frame = gpus.sample_gpus({}, lambda _news: None)
    if frame["error"]:
        remedy = gpus.remedy(frame["error"])
        return check("gpus", False, frame["error"], remedy, critical=wanted["idle"]), []
    if not frame["samples"]:
        text = "no GPU is seen here"
        remedy = "Give the container its /dev/nvidia* devices, or drop `gpus_idle`."
        return check("gpus", not wanted["idle"], text, remedy), []
    held = [
        {key: one.get(key) for key in ("index", "uuid", "memory_used_bytes", "processes")}
        for one in frame["samples"]
        if not gpus.is_free(one)
    ]
    text = "; ".join(map(held_by, held)) or f"{len(frame['samples'])} GPUs are idle"
    remedy = "Stop what holds them, or run with --replace if it is this job's earlier run."
    return check("gpus", not held, text, remedy, critical=wanted["idle"]), held


def _disk(wanted: Frame) -> Checks:
    path = wanted["path"]
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    space = os.statvfs(path)
    free = space.f_bavail * space.f_frsize
    least = wanted["min_free_bytes"]
    checks = [
        check(
            "disk", free >= least,
            f"{size(free)} are free for {wanted['path']}"
            + (f"; {size(least)} are asked for" if free < least else ""),
            "Free some: `orch prune` removes old releases.",
        )
    ]  # fmt: skip
    if space.f_files and space.f_favail < 1000:
        text = f"{space.f_favail} inodes are free for {wanted['path']}"
        checks.append(check("inodes", False, text, "Remove small files there."))
    return checks


def _workdir(wanted: Frame) -> Checks:
    path = wanted["path"]
    remedy = "Give the target's user the right to write there, or choose another workdir."
    try:
        os.makedirs(path, exist_ok=True)
        with tempfile.TemporaryFile(dir=path) as file:
            file.write(b"x")
    except OSError as exc:
        if exc.errno in (errno.ENOSPC, errno.EDQUOT):
            remedy = "Free some space there: `orch prune` removes old releases."
        return [check("workdir", False, f"{path} cannot be written: {exc.strerror}", remedy)]
    return [check("workdir", True, f"{path} can be written")]


def _clock(wanted: Frame) -> Checks:
    skew = time.time() - wanted["now"]
    text = f"the clock differs from the daemon's by {skew:+.1f} s"
    return [check("clock", abs(skew) < SKEW_S, text, "Set it: chronyc makestep.", critical=False)]


def _caches(wanted: Frame) -> Checks:
    """The folders in which kernels compiled earlier are kept."""
    bad = []
    for path in wanted["paths"]:
        try:
            os.makedirs(path, exist_ok=True)
            with tempfile.TemporaryFile(dir=path):
                pass
        except OSError as exc:
            bad.append(f"{path} ({exc.strerror})")
    text = f"cannot be written: {', '.join(bad)}" if bad else "compile caches can be written"
    remedy = "Without them every start compiles anew: give the target's user the right to write."
    checks = [check("caches", not bad, text, remedy, critical=False)]
    if wanted["compiles"] and not bad:
        checks += _cold(wanted["paths"], wanted["env"])
    return checks


def _cold(named: list[str], env: Frame) -> Checks:
    """The folders that the job names count, and the usual ones only where it names none."""
    own = run_environment(dict(env), path_first=[], python_path=[])
    folders = named or list(cache_folders(own).values())
    if any(map(_holds_a_file, folders)):
        return []
    text = f"no compiled kernels in {', '.join(folders)}: the first steps compile"
    remedy = "Nothing to do, it is slow once; `orch cache restore` brings kept ones back."
    return [check("cold_cache", False, text, remedy, critical=False)]


def _holds_a_file(folder: str) -> bool:
    return any(names for _, _, names in os.walk(folder))


def _python(wanted: Frame) -> tuple[dict[str, Any], Frame]:
    """Ask the job's own interpreter, in the job's own environment."""
    env = run_environment(
        dict(wanted["env"]), path_first=list(wanted["path_first"]), python_path=[]
    )
    argv = [wanted["python"], "-c", _VERSIONS, *wanted["packages"]]
    path = shutil.which(argv[0], path=env["PATH"])
    remedy = "Install it there, or name another under `python:` of the target or `setup:`."
    if path is None:
        return {}, check("python", False, f"{argv[0]} is not there", remedy)
    try:
        done = subprocess.run(
            [path, *argv[1:]], env=env, capture_output=True, timeout=_PYTHON_WITHIN_S, check=True
        )
        versions = json.loads(done.stdout.splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as exc:
        return {}, check("python", False, f"{path} does not run: {exc}", remedy)
    return versions, check("python", True, f"python is {path}")


_LOOKS: dict[str, Callable[[Frame], Checks]] = {
    "tmux": _tmux,
    "logind": _logind,
    "session": _session,
    "workdir": _workdir,
    "disk": _disk,
    "clock": _clock,
    "caches": _caches,
    **LOOKS,
}

OPS = {"preflight": preflight}
