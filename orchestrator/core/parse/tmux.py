"""What tmux prints of its sessions, for the plain-shell fallback."""

from dataclasses import dataclass

PANES_FORMAT = (
    "#{session_name}:#{pane_dead}:#{pane_pid}:#{session_created}"
    ":#{@orch_run}:#{@orch_uid}:#{@orch_attempt}"
)
"""For `list-panes -a -F`; a session's name holds no colon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One session; `dead` once every pane in it has ended, `run` None where orch knows none."""

    name: str
    dead: bool
    pane_pids: tuple[int, ...]
    created: int
    run: str | None
    uid: str | None
    attempt_dir: str | None = None
    """Folder of the attempt that it shows; None where orch did not start it."""


def parse_sessions(text: str) -> tuple[Session, ...]:
    """Sessions of `list-panes -a -F PANES_FORMAT`, in tmux's order; other lines are passed over."""
    panes: dict[str, list[list[str]]] = {}
    for line in text.splitlines():
        cells = line.split(":", 6)
        if len(cells) == 7 and cells[2].isdigit() and cells[3].isdigit():
            panes.setdefault(cells[0], []).append(cells)
    return tuple(_session(name, rows) for name, rows in panes.items())


def _session(name: str, rows: list[list[str]]) -> Session:
    first = rows[0]
    return Session(
        name=name,
        dead=all(row[1] == "1" for row in rows),
        pane_pids=tuple(int(row[2]) for row in rows),
        created=int(first[3]),
        run=first[4] or None,
        uid=first[5] or None,
        attempt_dir=first[6] or None,
    )
