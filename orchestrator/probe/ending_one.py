"""Op `end_pid`: one process is ended, if it still is the one that was shown.

Owns the check: PID, start time and command line. A PID alone names nobody, they are reused.
"""

import os
import signal
import time

from . import procfs
from .errors import Refused
from .frames import Frame
from .ops import Progress

LOOK_S = 0.05
KILL_WITHIN_S = 5.0


def end_pid(args: Frame, _progress: Progress) -> Frame:
    """SIGTERM, and SIGKILL after `grace_s`; `ended` says whether it is gone."""
    pid, start = int(args["pid"]), int(args["start"])
    fd = _opened(pid)
    try:
        _require_same(pid, start, str(args["command"]))
        # From the check on the descriptor means this very process, whoever gets its PID.
        for number, within_s in (
            (signal.SIGTERM, float(args.get("grace_s", 10.0))),
            (signal.SIGKILL, KILL_WITHIN_S),
        ):
            _send(fd, pid, number)
            if _gone(pid, start, within_s):
                return {"ended": True}
        return {"ended": False}
    finally:
        os.close(fd)


def _opened(pid: int) -> int:
    if pid <= 1 or pid == os.getpid():
        raise Refused(f"PID {pid} is not to be ended.")
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError as exc:
        raise Refused(f"PID {pid} is gone.", remedy="Nothing is left to do.") from exc
    except OSError as exc:
        raise Refused(
            f"PID {pid} cannot be held on to: {exc.strerror}.",
            remedy=f"End it on the target itself: kill {pid}.",
        ) from exc


def _require_same(pid: int, start: int, command: str) -> None:
    now = procfs.stat(pid)
    if now is None or now.state == procfs.ZOMBIE:
        raise Refused(f"PID {pid} has ended already.", remedy="Nothing is left to do.")
    found = procfs.command_line(pid)
    if now.start != start or found != command:
        raise Refused(
            f"PID {pid} is another one now: {found}. Nothing was sent to it.",
            remedy="Look at the list once more, and choose again.",
        )


def _send(fd: int, pid: int, number: signal.Signals) -> None:
    try:
        signal.pidfd_send_signal(fd, number)
    except ProcessLookupError:
        pass  # gone meanwhile, which is what was wanted
    except PermissionError as exc:
        raise Refused(
            f"PID {pid} belongs to another user.", remedy="Its owner, or root there, can end it."
        ) from exc


def _gone(pid: int, start: int, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while procfs.lives(pid, start):
        if time.monotonic() >= deadline:
            return False
        time.sleep(LOOK_S)
    return True


OPS = {"end_pid": end_pid}
