"""Op `launch`: one attempt in one tmux session, once, however often it is asked for.

Owns the step from a spec to a relay that runs. The environment goes through a one-shot FIFO:
in argv, or in tmux's own environment, anybody on the machine could read it.
"""

import errno
import fcntl
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .clean_env import run_environment
from .errors import BadCall, Refused
from .files import read_record
from .names import ATTEMPT_FILE, SPEC_FIFO
from .opening import open_fifo, open_file
from .tmux import ATTEMPT_OPTION, RUN_OPTION, UID_OPTION, Session, Tmux

LOCK_FILE = "launch.lock"
RELAY_WITHIN_S = 20.0
REQUIRED = ("run", "uid", "attempt", "run_dir", "attempt_dir", "session", "argv", "cwd")

Record = dict[str, Any]


def launch(args: Record, _progress: object) -> Record:
    """Start the attempt of `args` (a LaunchSpec), or say that it was started already."""
    for key in REQUIRED:
        if not args.get(key):
            raise BadCall(f"launch: `{key}` is missing.")
    directory = args["attempt_dir"]
    os.makedirs(directory, mode=0o700, exist_ok=True)
    with _locked(os.path.join(directory, LOCK_FILE)):
        record = _started(directory)
        if record is not None:
            return _answer(args, record, already=True)
        if not os.path.isdir(args["cwd"]):
            raise Refused(f"The working folder {args['cwd']} is not there.", remedy="Deploy first.")
        tmux = Tmux(args.get("socket"))
        _make_room(tmux, args)
        spec = _spec(args)
        _feed(tmux, args, spec)
        return _answer(args, _await_relay(tmux, args), already=False)


def relay_argv(directory: str) -> list[str]:
    """How the relay is started: by the interpreter and from the zipapp that run this probe."""
    return [sys.executable, "-I", "-S", os.path.realpath(sys.argv[0]), "attempt", directory]


@contextmanager
def _locked(path: str) -> Iterator[None]:
    """An evicted probe may still be at it; the lock goes with its life."""
    fd = open_file(path, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _started(directory: str) -> Record | None:
    return read_record(os.path.join(directory, ATTEMPT_FILE))


def _answer(args: Record, record: Record, *, already: bool) -> Record:
    return {
        "attempt_dir": args["attempt_dir"],
        "already": already,
        "session": args["session"],
        "pid": record["pid"],
        "started_at": record["started_at"],
    }


def _spec(args: Record) -> Record:
    env = run_environment(
        dict(args.get("env") or {}),
        path_first=list(args.get("path_first") or ()),
        python_path=list(args.get("python_path") or ()),
    )
    env |= {
        "ORCH_RUN_ID": args["run"],
        "ORCH_ATTEMPT": str(args["attempt"]),
        "ORCH_RUN_DIR": args["run_dir"],
    }
    names = ("run", "uid", "attempt", "session", "argv", "cwd")
    spec = {name: args[name] for name in names} | {"env": env}
    return spec | {name: args[name] for name in ("asked", "own_alert") if args.get(name)}


def _make_room(tmux: Tmux, args: Record) -> None:
    """Leave no session of that name but one that waits for this very attempt."""
    name = args["session"]
    session = tmux.find(name)
    if session is None:
        _make_fifo(args["attempt_dir"])
        _open_session(tmux, args)
    elif session.dead and session.run is not None:
        _make_fifo(args["attempt_dir"])
        _open_session(tmux, args, replacing=session)
    elif session.attempt_dir != args["attempt_dir"]:
        raise _occupied(session)


def _occupied(session: Session) -> Refused:
    if session.run is None:
        return Refused(
            f"A tmux session `{session.name}` is there already, and orch did not start it.",
            remedy=f"End it (tmux kill-session -t {session.name}), or give the job another "
            "`session` in the inventory.",
        )
    return Refused(
        f"The tmux session `{session.name}` belongs to {session.run}, which still runs.",
        remedy=f"Stop it with the inventory that it is from (orch stop {session.run}), or run "
        "with --replace where that is this one.",
    )


def _make_fifo(directory: str) -> None:
    path = os.path.join(directory, SPEC_FIFO)
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    os.mkfifo(path, 0o600)


def _open_session(tmux: Tmux, args: Record, *, replacing: Session | None = None) -> None:
    marks = {
        RUN_OPTION: args["run"],
        UID_OPTION: args["uid"],
        ATTEMPT_OPTION: args["attempt_dir"],
    }
    argv = relay_argv(args["attempt_dir"])
    tmux.new_session(args["session"], argv, marks, replacing=replacing)


def _feed(tmux: Tmux, args: Record, spec: Record) -> None:
    """Hand the spec to the relay, unless one has it already and removed the FIFO."""
    fd = _open_fifo(tmux, args)
    if fd is None:
        return
    os.set_blocking(fd, True)
    try:
        with open(fd, "wb") as fifo:
            fifo.write(json.dumps(spec).encode())
    except BrokenPipeError as exc:
        raise _no_relay(tmux, args) from exc


def _open_fifo(tmux: Tmux, args: Record) -> int | None:
    """The writing end once the relay reads; None where the FIFO is gone."""
    path = os.path.join(args["attempt_dir"], SPEC_FIFO)
    deadline = time.monotonic() + RELAY_WITHIN_S
    looks = 0
    while True:
        try:
            return open_fifo(path, os.O_WRONLY)
        except FileNotFoundError:
            return None
        except OSError as exc:
            if exc.errno != errno.ENXIO:
                raise
            looks += 1
            # Asking tmux costs a process, so not at every look.
            if time.monotonic() > deadline or (looks % 50 == 0 and _died(tmux, args)):
                raise _no_relay(tmux, args) from exc
            time.sleep(0.005)


def _await_relay(tmux: Tmux, args: Record) -> Record:
    deadline = time.monotonic() + RELAY_WITHIN_S
    pause = 0.002
    while time.monotonic() < deadline:
        record = _started(args["attempt_dir"])
        if record is not None:
            return record
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)
        if pause >= 0.1 and _died(tmux, args) and _started(args["attempt_dir"]) is None:
            break
    raise _no_relay(tmux, args)


def _died(tmux: Tmux, args: Record) -> bool:
    session = tmux.find(args["session"])
    return session is None or session.dead


def _no_relay(tmux: Tmux, args: Record) -> Refused:
    shown = ""
    if tmux.find(args["session"]) is not None:
        shown = tmux.text(args["session"])[-500:]
    return Refused(
        f"The relay in tmux session `{args['session']}` did not start"
        + (f"; its pane says: {shown}" if shown else "."),
        remedy=f"Run it by hand to see why: {' '.join(relay_argv(args['attempt_dir']))}.",
    )


OPS = {"launch": launch}
