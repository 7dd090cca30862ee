"""The one registry of keys: what each does, where, and whether it changes anything.

Bindings, footer, help and command palette are all made from it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from textual.binding import Binding, BindingType

PAGES = ("fleet", "run", "incident", "top")


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One thing a person can do; `action` is Textual's."""

    id: str
    keys: str
    action: str
    label: str
    help: str
    pages: tuple[str, ...]
    """Where it works; `app` is everywhere."""
    changes: bool = False
    """Refused with --read-only."""
    shown: tuple[str, ...] = ()
    """Pages on which it is in the footer."""
    asks: bool = False
    """Asks before it does anything."""
    types: bool = False
    """Opens a line to type into; taken first of all, so that what is typed ahead goes there."""

    @property
    def names(self) -> str:
        """Its keys as a person writes them."""
        return " ".join(_NAMES.get(key, key) for key in self.keys.split(","))


_NAMES = {
    "escape": "Esc",
    "enter": "Enter",
    "question_mark": "?",
    "slash": "/",
    "colon": ":",
    "ctrl+p": "Ctrl+P",
    "space": "Space",
}


KEYS = (
    Key(
        id="open",
        keys="enter",
        action="open",
        label="open",
        help="Open what the cursor is on: a run, its incident, a target's GPUs.",
        pages=("fleet", "run", "top"),
        shown=("fleet", "top"),
    ),
    Key(
        id="back",
        keys="escape",
        action="back",
        label="back",
        help="Go back; a filter, a search and marks go first.",
        pages=("run", "incident", "top"),
        shown=("run", "incident", "top"),
    ),
    Key(
        id="all",
        keys="escape",
        action="back",
        label="all",
        help="Leave the filter, then the order and the groups.",
        pages=("fleet",),
    ),
    Key(
        id="filter",
        keys="slash",
        action="filter",
        label="filter",
        help="Show only runs with these words in them.",
        pages=("fleet",),
        shown=("fleet",),
        types=True,
    ),
    Key(
        id="order",
        keys="o",
        action="order",
        label="order",
        help="Sort: newest, trouble, longest silent, lowest loss, name.",
        pages=("fleet",),
    ),
    Key(
        id="group",
        keys="g",
        action="group",
        label="group",
        help="Put runs under a heading for each target, job or state.",
        pages=("fleet",),
    ),
    Key(
        id="search",
        keys="slash",
        action="search",
        label="search",
        help="Search the whole log; a regular expression, small letters match large ones.",
        pages=("run",),
        shown=("run",),
        types=True,
    ),
    Key(
        id="next_match",
        keys="n",
        action="search_on(1)",
        label="next",
        help="Go to the next match, further down.",
        pages=("run",),
    ),
    Key(
        id="previous_match",
        keys="N",
        action="search_on(-1)",
        label="previous",
        help="Go to the match before, further up.",
        pages=("run",),
    ),
    Key(
        id="finding",
        keys="f",
        action="finding",
        label="finding",
        help="Go to the place in the log that the incident speaks of.",
        pages=("run", "incident"),
        shown=("incident",),
    ),
    Key(
        id="pause",
        keys="space",
        action="pause",
        label="pause",
        help="Stop following the log, or follow it again.",
        pages=("run",),
        shown=("run",),
    ),
    Key(
        id="wrap",
        keys="w",
        action="wrap",
        label="wrap",
        help="Wrap long lines, or cut them and look sideways with Left and Right.",
        pages=("run",),
    ),
    Key(
        id="rank",
        keys="R",
        action="rank",
        label="rank",
        help="Show one rank after the other, then all again.",
        pages=("run",),
    ),
    Key(
        id="level",
        keys="l",
        action="level",
        label="level",
        help="Show all lines, then warnings and errors, then errors.",
        pages=("run",),
    ),
    Key(
        id="metrics",
        keys="m",
        action="metrics",
        label="metrics",
        help="Show or hide the plots: loss, speed, gradient norm.",
        pages=("run",),
    ),
    Key(
        id="copy",
        keys="y",
        action="copy",
        label="copy",
        help="Copy the lines on the screen to the clipboard, through the terminal.",
        pages=("run", "incident"),
    ),
    Key(
        id="save",
        keys="W",
        action="save",
        label="save",
        help="Save the whole log as a file in the folder the dashboard was started in.",
        pages=("run",),
    ),
    Key(
        id="incident",
        keys="i",
        action="incident",
        label="incident",
        help="Open the run's incident: what died, where, why, what to do.",
        pages=("fleet", "run"),
        shown=("run",),
    ),
    Key(
        id="deploy",
        keys="d",
        action="act('deploy')",
        label="deploy",
        help="Ship the job's package; shows the plan and asks.",
        pages=("fleet", "run", "incident"),
        changes=True,
        asks=True,
        shown=("fleet",),
    ),
    Key(
        id="run",
        keys="r",
        action="act('run')",
        label="run",
        help="Launch the job; asks why.",
        pages=("fleet", "run", "incident"),
        changes=True,
        asks=True,
        shown=("fleet", "incident"),
    ),
    Key(
        id="stop",
        keys="s",
        action="act('stop')",
        label="stop",
        help="Stop the run; asks.",
        pages=("fleet", "run", "incident"),
        changes=True,
        asks=True,
        shown=("fleet", "run"),
    ),
    Key(
        id="rollback",
        keys="B",
        action="act('rollback')",
        label="roll back",
        help="Make an earlier release the current one; asks which.",
        pages=("fleet", "run"),
        changes=True,
        asks=True,
    ),
    Key(
        id="ack",
        keys="A",
        action="act('ack')",
        label="ack",
        help="Say that somebody cares about the incident.",
        pages=("fleet", "run", "incident"),
        changes=True,
        shown=("incident",),
    ),
    Key(
        id="attach",
        keys="a",
        action="act('attach')",
        label="attach",
        help="Land in the run's tmux session; detaching (Ctrl+B d) comes back here.",
        pages=("fleet", "run", "incident"),
        changes=True,
        shown=("fleet", "run"),
    ),
    Key(
        id="shell",
        keys="x",
        action="act('shell')",
        label="shell",
        help="A shell on the target; leaving it comes back here.",
        pages=("fleet", "run", "incident", "top"),
        changes=True,
        shown=("top",),
    ),
    Key(
        id="edit",
        keys="e",
        action="act('edit')",
        label="edit inventory",
        help="Open the inventory in $VISUAL or $EDITOR.",
        pages=("app",),
        changes=True,
    ),
    Key(
        id="start_daemon",
        keys="S",
        action="act('start_daemon')",
        label="start daemon",
        help="Start the daemon, where none answers.",
        pages=("app",),
        changes=True,
    ),
    Key(
        id="top",
        keys="t",
        action="top",
        label="GPUs",
        help="The GPUs of the fleet, and what holds them.",
        pages=("fleet", "run", "incident"),
    ),
    Key(
        id="theme",
        keys="T",
        action="theme",
        label="theme",
        help="Dark, light, or no colours.",
        pages=("app",),
    ),
    Key(
        id="palette",
        keys="ctrl+p,colon",
        action="command_palette",
        label="commands",
        help="Find anything that can be done, by its name.",
        pages=("app",),
    ),
    Key(
        id="help",
        keys="question_mark",
        action="help",
        label="help",
        help="Show this list.",
        pages=("app",),
        shown=("app",),
    ),
    Key(
        id="quit",
        keys="q",
        action="quit",
        label="quit",
        help="Leave the dashboard; runs and the daemon go on.",
        pages=("app",),
        shown=("app",),
    ),
)


def at(page: str) -> Iterator[Key]:
    """The keys of a page."""
    return (key for key in KEYS if page in key.pages)


def by_id(name: str) -> Key:
    """The key of that id; KeyError where there is none."""
    return next(key for key in KEYS if key.id == name)


def of_action(page: str, action: str, parameters: tuple[object, ...]) -> Key | None:
    """The key of a page that does that action."""
    words = ", ".join(map(repr, parameters))
    names = {action, f"{action}({words})"}
    return next((key for key in at(page) if key.action in names), None)


def bindings(page: str) -> list[BindingType]:
    """A page's keys as Textual takes them."""
    return [
        Binding(
            key.keys,
            key.action,
            key.label,
            show=page in key.shown,
            priority=key.types,
            key_display=key.names,
            tooltip=key.help,
            id=f"{page}.{key.id}",
        )
        for key in at(page)
    ]
