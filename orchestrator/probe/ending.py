"""Ops `end` and `signal`: everything of a run is ended, and what remains is named.

SIGTERM goes from the top down: a program that saves a checkpoint needs its own children, and
torchrun passes the signal on itself. After the grace everything left is killed.
"""

import os
import signal
import time

from . import gpus, procfs
from .awaited import forget
from .belonging import Belonging, record_of
from .errors import BadCall, Refused
from .files import identity_in, read_record
from .frames import Frame
from .names import ADOPTION_FILE, EXIT_FILE
from .ops import Progress
from .tmux import RUN_OPTION, UID_OPTION, Tmux, relay_of

LOOK_S = 0.05
KILL_WITHIN_S = 10.0
RELAY_WITHIN_S = 15.0


def end(args: Frame, progress: Progress) -> Frame:
    """End a run's attempt and all that it left; see the module and frames.py."""
    belonging = Belonging(args["run"], args["uid"], args.get("attempt_dir"), _pane_pids(args))
    used = frozenset(args.get("gpus") or ()) | _used(args)
    if args.get("attempt_dir"):
        acknowledge({"attempt_dir": args["attempt_dir"]}, progress)
    seen: set[int] = set()
    left = _terminate(belonging, float(args.get("grace_s", 30.0)), seen, progress)
    if left:
        left = _kill(belonging, seen, progress)
    _await_record(args.get("attempt_dir"), belonging)
    freed = gpus.await_free(progress, used)
    return {
        "ended": sorted(seen - set(left)),
        "remaining": [{"pid": pid, "command": procfs.command_line(pid)} for pid in sorted(left)],
        "gpus": freed.gpus,
        "gpus_free_after_s": freed.after_s,
        "gpu_holders": freed.holders,
    }


def _used(args: Frame) -> frozenset[str]:
    """GPUs that are seen here to be the run's, by UUID."""
    attempt_dir = args.get("attempt_dir")
    if attempt_dir is None:
        return frozenset()
    return gpus.used_by(args["run"], os.path.dirname(attempt_dir.rstrip("/")))


def _pane_pids(args: Frame) -> set[int]:
    """Programs in the run's own session; another run may have taken its name since.

    Of a session that was adopted the run has one pane.
    """
    if not args.get("session"):
        return set()
    adoption = read_record(os.path.join(args.get("attempt_dir") or "", ADOPTION_FILE))
    if adoption is not None:
        pane_pid = adoption.get("pane_pid")
        return {pane_pid} if isinstance(pane_pid, int) and _is_pane(args, pane_pid) else set()
    try:
        session = Tmux(args.get("socket")).find(args["session"])
    except Refused:
        # tmux was removed meanwhile; what the run started is found without it.
        return set()
    if session is None or (session.run, session.uid) != (args["run"], args["uid"]):
        return set()
    # The session's attempt: a relaunch comes before its own one has begun.
    own = relay_of(session.attempt_dir) if session.attempt_dir else None
    # Panes beside the relay's were opened by somebody else, and are theirs.
    ours = {own} if own in session.pane_pids else set(session.pane_pids)
    # The PID of a pane that has ended is given out again.
    return ours & session.living


def _is_pane(args: Frame, pid: int) -> bool:
    """Whether a pane of this PID lives and bears the run's marks; the record alone may be old."""
    form = f"#{{pane_pid}}:#{{pane_dead}}:#{{{RUN_OPTION}}}:#{{{UID_OPTION}}}"
    try:
        return f"{pid}:0:{args['run']}:{args['uid']}" in Tmux(args.get("socket")).panes(form)
    except Refused:
        return False


def _terminate(
    belonging: Belonging, grace_s: float, seen: set[int], progress: Progress
) -> dict[int, procfs.Stat]:
    deadline = time.monotonic() + grace_s
    told: set[tuple[int, int]] = set()
    while True:
        living = belonging.living()
        seen |= set(living)
        if not living or time.monotonic() >= deadline:
            return living
        for pid, entry in living.items():
            if entry.parent not in living and (pid, entry.start) not in told:
                told.add((pid, entry.start))
                _send(pid, signal.SIGTERM)
                # A stopped program could not act on it.
                _send(pid, signal.SIGCONT)
                progress({"phase": "terminating", "living": len(living)})
        time.sleep(LOOK_S)


def _kill(belonging: Belonging, seen: set[int], progress: Progress) -> dict[int, procfs.Stat]:
    deadline = time.monotonic() + KILL_WITHIN_S
    while True:
        living = belonging.living()
        seen |= set(living)
        if not living or time.monotonic() >= deadline:
            return living
        progress({"phase": "killing", "living": len(living)})
        for pid in living:
            _send(pid, signal.SIGKILL)
        time.sleep(LOOK_S)


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass
    except PermissionError:
        # Another user's: it stays, and is named as remaining.
        pass


def _await_record(attempt_dir: str | None, belonging: Belonging) -> None:
    """The relay drains the terminal and writes the record; it needs a moment."""
    if attempt_dir is None or belonging.relay is None:
        return
    deadline = time.monotonic() + RELAY_WITHIN_S
    path = os.path.join(attempt_dir, EXIT_FILE)
    while time.monotonic() < deadline and procfs.lives(*belonging.relay):
        if os.path.exists(path):
            return
        time.sleep(LOOK_S)
    _end_relay(attempt_dir, *belonging.relay)


def _end_relay(attempt_dir: str, pid: int, start: int) -> None:
    """A relay that hangs would keep its run alive for ever; the record lay open to the program."""
    if attempt_dir in procfs.command_line(pid).split() and procfs.lives(pid, start):
        _send(pid, signal.SIGKILL)


def acknowledge(args: Frame, _progress: Progress) -> Frame:
    """Somebody knows of the attempt's end: its relay need not alert. Again and again is fine."""
    forget(args["attempt_dir"])
    return {}


def send_signal(args: Frame, _progress: Progress) -> Frame:
    """Signal the program's process group, by number or by name (`TERM`, `SIGTERM`)."""
    number = _number(args["signal"])
    program = identity_in(record_of(args["attempt_dir"]), "pid", "start")
    if program is None or not procfs.lives(*program):
        raise Refused("The program of this attempt does not run any more.")
    os.killpg(program[0], number)
    return {}


def _number(named: int | str) -> int:
    if isinstance(named, int):
        return named
    name = named if named.startswith("SIG") else f"SIG{named}"
    try:
        return signal.Signals[name].value
    except KeyError:
        raise BadCall(f"There is no signal `{named}`.") from None


OPS = {"end": end, "signal": send_signal, "acknowledge": acknowledge}
