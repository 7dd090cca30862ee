"""Op `processes`: what runs here that belongs to a run, sits in tmux, or uses a GPU."""

import os

from . import procfs
from .errors import Refused
from .frames import Frame
from .ops import Progress
from .tmux import Session, Tmux

COMPUTE_DEVICE = "/dev/nvidia-uvm"
"""Open in everything that computes on a GPU, and in nothing that only asks about it."""


def list_processes(args: Frame, _progress: Progress) -> Frame:
    """Each with the run it carries in its environment and the tmux session it descends from."""
    table = {entry.pid: entry for entry in procfs.every()}
    in_session = _sessions(table, args.get("socket"))
    found = []
    for pid, entry in sorted(table.items()):
        run = procfs.environment(pid).get("ORCH_RUN_ID")
        session = in_session.get(pid)
        if entry.state == procfs.ZOMBIE or not (run or session or uses_gpu(pid)):
            continue
        found.append(
            {
                "pid": pid,
                "command": procfs.command_line(pid),
                "run": run,
                "session": session,
                "age_s": round(procfs.age_s(entry.start), 1),
            }
        )
    return {"processes": found}


def uses_gpu(pid: int) -> bool:
    """Whether a PID computes on an NVIDIA GPU; False where we may not look."""
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return False
    for name in names:
        try:
            if os.readlink(f"{folder}/{name}") == COMPUTE_DEVICE:
                return True
        except OSError:
            continue
    return False


def _sessions(table: dict[int, procfs.Stat], socket: str | None) -> dict[int, str]:
    sessions: list[Session]
    try:
        sessions = Tmux(socket).sessions()
    except Refused:
        # No tmux here: then nothing sits in one.
        return {}
    return {
        pid: session.name
        for session in sessions
        for pid in procfs.with_descendants(set(session.pane_pids), table)
    }


OPS = {"processes": list_processes}
