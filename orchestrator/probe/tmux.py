"""Drives tmux through libtmux, which is imported at the first call only.

Owns the shape of our sessions (size, options, marks). Knows nothing of runs beyond their names.
"""

import os
import subprocess
from dataclasses import dataclass, replace
from typing import Any

from . import umask
from .errors import Refused
from .files import identity_in, read_record
from .logind import scope_words
from .names import ATTEMPT_FILE, EXIT_FILE

RUN_OPTION = "@orch_run"
UID_OPTION = "@orch_uid"
ATTEMPT_OPTION = "@orch_attempt"

_FORMAT = ":".join(
    f"#{{{name}}}"
    for name in (
        "session_name",
        "pane_dead",
        "pane_pid",
        "session_created",
        RUN_OPTION,
        UID_OPTION,
        ATTEMPT_OPTION,
    )
)
SCOPE_WITHIN_S = 20.0
_NO_SERVER = ("no server running", "error connecting to", "No such file or directory")


@dataclass(frozen=True)
class Session:
    """One tmux session; `dead` once what orch started in it has ended, or else all of its panes."""

    name: str
    dead: bool
    pane_pids: tuple[int, ...]
    created: int
    run: str | None
    uid: str | None
    attempt_dir: str | None
    living: frozenset[int] = frozenset()
    """PIDs of the panes that have not ended."""
    shared: bool = False
    """Whether panes live in it that somebody opened beside orch's."""


class TmuxFailed(Refused):
    """tmux is missing or did not do what it was told."""


class Tmux:
    """A tmux server: the default socket, one by name, or one by path."""

    def __init__(self, socket: str | None = None) -> None:
        from libtmux import Server

        self._socket = socket
        if socket and "/" in socket:
            self._server: Any = Server(socket_path=socket)
        elif socket:
            self._server = Server(socket_name=socket)
        else:
            self._server = Server()

    def run(self, *words: str) -> list[str]:
        """Run one command sequence and return its lines; TmuxFailed where it complains."""
        from libtmux.exc import TmuxCommandNotFound

        try:
            done = self._server.cmd("-u", *words)
        except TmuxCommandNotFound as exc:
            raise TmuxFailed(
                "tmux is not installed here.", remedy="Install it: apt-get install tmux."
            ) from exc
        if done.returncode:
            raise TmuxFailed(f"tmux {words[0]} failed: {' '.join(done.stderr) or 'no reason'}.")
        return list(done.stdout)

    def sessions(self) -> list[Session]:
        """All sessions of the server; empty where none runs."""
        return [self._settled(session) for session in parse_panes(self.panes(_FORMAT))]

    def panes(self, form: str) -> list[str]:
        """A line for each pane of the server; none where no server runs."""
        try:
            return self.run("list-panes", "-a", "-F", form)
        except TmuxFailed as exc:
            if any(text in str(exc) for text in _NO_SERVER):
                return []
            raise

    @staticmethod
    def _settled(session: Session) -> Session:
        """A relay lives for a moment after its exit record; its session counts as dead then.

        So it does where other panes live on: they are not the run's.
        """
        if session.dead or session.attempt_dir is None:
            return session
        ended = os.path.exists(os.path.join(session.attempt_dir, EXIT_FILE))
        if len(session.pane_pids) == 1:
            return replace(session, dead=ended)
        own = relay_of(session.attempt_dir)
        if own not in session.pane_pids:
            return session
        dead = ended or own not in session.living
        return replace(session, dead=dead, shared=bool(session.living - {own}))

    def find(self, name: str) -> Session | None:
        """The session of that very name."""
        return next((item for item in self.sessions() if item.name == name), None)

    def new_session(
        self,
        name: str,
        argv: list[str],
        marks: dict[str, str],
        *,
        replacing: Session | None = None,
    ) -> None:
        """Start a detached session of 200 by 50 that stays when its program has ended.

        All in one command sequence: between two calls a quick program would be gone already, and
        a server whose last session was killed (`replacing` one of that name) would be leaving.
        One that is `shared` is not killed: it is renamed, and its panes live on.
        """
        here, old = f"={name}:", f"{name}-replaced"
        if replacing is not None and replacing.shared:
            old = self._unused(f"{name}-before")
        words = ["rename-session", "-t", f"={name}", old, ";"] if replacing else []
        words += ["new-session", "-d", "-x", "200", "-y", "50", "-s", name, "--", *argv]
        words += [";", "set-option", "-t", here, "destroy-unattached", "off"]
        words += [";", "set-option", "-w", "-t", here, "remain-on-exit", "on"]
        for option, value in marks.items():
            words += [";", "set-option", "-t", here, option, value]
        if replacing is not None and not replacing.shared:
            words += [";", "kill-session", "-t", f"={old}"]
        scope = [] if replacing is not None or self.sessions() else scope_words()
        self._begin(scope, words)

    def _begin(self, scope: list[str], words: list[str]) -> None:
        """Start the session, and the server where there is none: where logind does not end it."""
        chosen, env = [], dict(os.environ)
        if self._socket:
            chosen = ["-S" if "/" in self._socket else "-L", self._socket]
        if scope:
            # Not every way in sets it, and the user's manager is found by it.
            env.setdefault("XDG_RUNTIME_DIR", f"/run/user/{os.getuid()}")
        done = subprocess.run(
            [*scope, "tmux", *chosen, "-u", *words],
            capture_output=True,
            timeout=SCOPE_WITHIN_S if scope else None,
            check=False,
            env=env,
            umask=umask.of_login(),
        )
        if not done.returncode:
            return
        said = done.stderr.decode("utf-8", "replace").strip() or "no reason"
        if not scope:
            raise TmuxFailed(f"tmux {words[0]} failed: {said}.")
        raise TmuxFailed(
            f"tmux could not be started by {scope[0]}: {said}.",
            remedy="Start any session there yourself (tmux new -d), and launch again.",
        )

    def _unused(self, name: str) -> str:
        """The name, or the first of NAME-2, NAME-3 ... that no session has."""
        there = {session.name for session in self.sessions()}
        numbered = (f"{name}-{number}" for number in range(2, len(there) + 3))
        return name if name not in there else next(one for one in numbered if one not in there)

    def text(self, name: str) -> str:
        """What the session's pane shows, lines joined where the pane wrapped them."""
        return "\n".join(self.run("capture-pane", "-p", "-J", "-t", f"={name}:")).strip()


def parse_panes(lines: list[str]) -> list[Session]:
    """Sessions from the lines of `list-panes`; a name holds no colon, and ours no mark does."""
    found: dict[str, Session] = {}
    for line in lines:
        parts = line.split(":", 6)
        if len(parts) < 7:
            continue
        name, dead, pid, created, run, uid, attempt_dir = parts
        before = found.get(name)
        known = before if before and before.run else None
        found[name] = Session(
            name,
            dead == "1" and (before is None or before.dead),
            (*(before.pane_pids if before else ()), int(pid)),
            int(created),
            # Of an adopted session one pane may bear the marks alone.
            known.run if known else run or None,
            known.uid if known else uid or None,
            known.attempt_dir if known else attempt_dir or None,
            (before.living if before else frozenset()) | (set() if dead == "1" else {int(pid)}),
        )
    return list(found.values())


def relay_of(attempt_dir: str) -> int | None:
    """PID of the relay of an attempt, which is its pane's; None where it has none yet."""
    found = identity_in(
        read_record(os.path.join(attempt_dir, ATTEMPT_FILE)), "relay_pid", "relay_start"
    )
    return found[0] if found else None


def list_sessions(args: dict[str, Any], _progress: object) -> dict[str, Any]:
    """Op `sessions`: what runs on one tmux server."""
    found = Tmux(args.get("socket")).sessions()
    return {
        "sessions": [
            {
                "name": item.name,
                "dead": item.dead,
                "run": item.run,
                "uid": item.uid,
                "created": item.created,
            }
            for item in found
        ]
    }


OPS = {"sessions": list_sessions}
