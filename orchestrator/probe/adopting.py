"""Ops `adopt_look` and `adopt`: a session or a PID that somebody else started is followed from now.

Owns what may be adopted, and the one tmux sequence that takes the scrollback and pipes the pane.
The program itself is not touched. The relay of it is adopted.py.
"""

import os
import re
import subprocess
import sys
import time
from typing import Any

from . import procfs
from .errors import Refused
from .files import read_record, write_record
from .frames import Frame
from .names import ADOPTION_FILE, ATTEMPT_FILE, LOG_FILE, SCROLLBACK_FILE
from .opening import open_file
from .ops import Progress
from .tmux import ATTEMPT_OPTION, RUN_OPTION, UID_OPTION, Tmux

RELAY_WITHIN_S = 20.0
_PANES = "\t".join(
    (
        "#{session_name}:#{window_index}.#{pane_index}",
        "#{pane_id}",
        "#{pane_pid}",
        "#{pane_pipe}",
        "#{pane_dead}",
        f"#{{{RUN_OPTION}}}",
        f"#{{{ATTEMPT_OPTION}}}",
    )
)


def adopt_look(args: Frame, _progress: Progress) -> Frame:
    """What would be adopted; Refused, with the remedy, where it cannot be.

    `what` is a session, SESSION:WINDOW.PANE, or a PID. Value: what, name, pid, command, folder.
    """
    what = str(args["what"])
    folder = os.path.join(os.path.expanduser("~"), ".local", "share", "orch", "adopted")
    if what.isdigit():
        found = procfs.stat(int(what))
        if found is None:
            raise Refused(f"There is no process {what} here.", remedy="`orch top` lists some.")
        _output_of(int(what))
        seen: Frame = {"what": what, "name": f"pid-{what}", "pid": int(what)}
    else:
        pane = _pane(Tmux(args.get("socket")), what, take_pipe=bool(args.get("take_pipe")))
        seen = {"what": pane["id"], "name": pane["session"], "pid": _program(pane["pid"])}
    return {**seen, "command": procfs.command_line(seen["pid"]), "folder": folder}


def adopt(args: Frame, _progress: Progress) -> Frame:
    """Follow what `adopt_look` found, once; the value is that of `launch`."""
    directory = args["attempt_dir"]
    os.makedirs(directory, mode=0o700, exist_ok=True)
    record = read_record(os.path.join(directory, ATTEMPT_FILE))
    if record is None:
        _begin(args, directory)
        record = _await_relay(directory)
    return {
        "attempt_dir": directory,
        "already": False,
        "session": args["session"],
        "pid": record["pid"],
        "started_at": record["started_at"],
    }


def _begin(args: Frame, directory: str) -> None:
    what = str(args["what"])
    spec: Frame = {name: args[name] for name in ("run", "uid", "attempt", "session")}
    if what.isdigit():
        pid = int(what)
        os.symlink(_output_of(pid), os.path.join(directory, LOG_FILE))
        _note(directory, {**spec, "pid": pid, "pane": None})
        # Of its own session: it must outlive this probe, as the relay in a pane does.
        subprocess.Popen(
            relay_words(directory),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return
    tmux = Tmux(args.get("socket"))
    pane = _pane(tmux, what, take_pipe=bool(args.get("take_pipe")))
    adoption = {**spec, "pane": pane["id"], "pane_pid": pane["pid"], "socket": args.get("socket")}
    _note(directory, {**adoption, "pid": _program(pane["pid"])})
    _take(tmux, pane, args, directory)


def _take(tmux: Tmux, pane: Frame, args: Frame, directory: str) -> None:
    """Scrollback and pipe in one sequence: what is printed in between would be lost, or doubled."""
    here = pane["id"]
    words = ["capture-pane", "-p", "-J", "-S", "-", "-t", here]
    words += [";", "pipe-pane", "-t", here, _shell(relay_words(directory))]
    words += [";", "set-option", "-p", "-t", here, "remain-on-exit", "on"]
    marks = {RUN_OPTION: args["run"], UID_OPTION: args["uid"], ATTEMPT_OPTION: directory}
    for option, value in marks.items():
        # Of this pane alone: the others of its session are somebody else's.
        words += [";", "set-option", "-p", "-t", here, option, value]
    lines = tmux.run(*words)
    while lines and not lines[-1].strip():
        lines.pop()
    path = os.path.join(directory, SCROLLBACK_FILE)
    fd = open_file(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    with open(fd, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write("".join(f"{line.rstrip()}\n" for line in lines))
    os.rename(path + ".new", path)


def relay_words(directory: str) -> list[str]:
    """How the relay of an adoption is started."""
    zipapp = os.path.realpath(sys.argv[0])
    return [sys.executable, "-I", "-S", zipapp, "adopted", directory]


def _note(directory: str, record: dict[str, Any]) -> None:
    pid = record["pid"]
    found = procfs.stat(pid)
    if found is None:
        raise Refused(f"Process {pid} has just ended.", remedy="There is nothing left to follow.")
    started_at = time.time() - procfs.age_s(found.start)
    write_record(
        os.path.join(directory, ADOPTION_FILE),
        {**record, "start": found.start, "started_at": started_at},
    )


def _pane(tmux: Tmux, what: str, *, take_pipe: bool) -> Frame:
    """The one pane that is meant; Refused where it is not one, or is piped already."""
    wanted = what if re.fullmatch(r"%\d+", what) else None
    panes: list[Frame] = []
    for line in tmux.panes(_PANES):
        place, pane_id, pid, piped, dead, run, attempt_dir = line.split("\t")
        session = place.rpartition(":")[0]
        if (wanted or what) in {pane_id if wanted else session, place}:
            panes.append(
                {
                    "id": pane_id,
                    "place": place,
                    "session": session,
                    "pid": int(pid),
                    "piped": piped == "1",
                    "dead": dead == "1",
                    "run": run,
                    "attempt_dir": attempt_dir,
                }
            )
    living = [pane for pane in panes if not pane["dead"]]
    if not living:
        raise Refused(f"There is no live tmux session {what} here.", remedy="tmux ls lists them.")
    if len(living) > 1:
        places = ", ".join(f"{one['place']} ({procfs.command_line(one['pid'])})" for one in living)
        raise Refused(f"{what} has {len(living)} panes: {places}.", remedy="Say which of them.")
    return _free(living[0], take_pipe=take_pipe)


def _free(pane: Frame, *, take_pipe: bool) -> Frame:
    if pane["run"] and pane["piped"]:
        raise Refused(f"{pane['place']} is followed as {pane['run']} already.")
    if pane["run"] and not is_adoption(pane["attempt_dir"]):
        raise Refused(
            f"{pane['place']} belongs to {pane['run']}, which orch launched or adopted.",
            remedy=f"orch logs -f {pane['run']}",
        )
    if pane["piped"] and not take_pipe:
        raise Refused(
            f"{pane['place']} is piped somewhere already, and tmux has one pipe a pane.",
            remedy="--take-pipe ends that pipe and takes its place.",
        )
    return pane


def is_adoption(attempt_dir: str) -> bool:
    """Whether an attempt was adopted; with its pipe it is over, and its pane free again."""
    return os.path.exists(os.path.join(attempt_dir, ADOPTION_FILE))


def _program(pane_pid: int) -> int:
    """Who has the pane's terminal now: the program in the foreground, or the shell itself."""
    try:
        with open(f"/proc/{pane_pid}/stat", "rb") as file:
            foreground = int(file.read().rpartition(b")")[2].split()[5])
    except (OSError, ValueError, IndexError):
        return pane_pid
    return foreground if foreground > 0 and procfs.stat(foreground) else pane_pid


def _output_of(pid: int) -> str:
    """The file that a PID writes to; a terminal or a pipe cannot be read by a second reader."""
    for number in (1, 2):
        try:
            path = os.readlink(f"/proc/{pid}/fd/{number}")
        except OSError:
            continue
        if path.startswith("/") and os.path.isfile(path):
            return path
    raise Refused(
        f"Process {pid} writes to no file that could be followed.",
        remedy="Adopt the tmux session that it runs in.",
    )


def _await_relay(directory: str) -> Frame:
    deadline = time.monotonic() + RELAY_WITHIN_S
    while time.monotonic() < deadline:
        record = read_record(os.path.join(directory, ATTEMPT_FILE))
        if record is not None:
            return record
        time.sleep(0.02)
    raise Refused(
        "The relay of the adoption did not start.",
        remedy=f"Run it by hand to see why: {_shell(relay_words(directory))}",
    )


def _shell(words: list[str]) -> str:
    return "exec " + " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)


OPS = {"adopt_look": adopt_look, "adopt": adopt}
