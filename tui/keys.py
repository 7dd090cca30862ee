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
    shown: bool = False
    """In the footer."""
    asks: bool = False
    """Asks before it does anything."""

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
    "G": "G",
}


KEYS = (
    Key(
        id="open",
        keys="enter",
        action="open",
        label="open",
        help="Open what the cursor is on: a run, its incident, a target's GPUs.",
        pages=("fleet", "run", "top"),
        shown=True,
    ),
    Key(
        id="back",
        keys="escape",
        action="back",
        label="back",
        help="Go back; leave a filter or a search first.",
        pages=("run", "incident", "top"),
        shown=True,
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
        id="help",
        keys="question_mark",
        action="help",
        label="help",
        help="Show this list.",
        pages=("app",),
        shown=True,
    ),
    Key(
        id="quit",
        keys="q",
        action="quit",
        label="quit",
        help="Leave the dashboard; runs and the daemon go on.",
        pages=("app",),
        shown=True,
    ),
)


def at(page: str) -> Iterator[Key]:
    """The keys of a page."""
    return (key for key in KEYS if page in key.pages)


def by_id(name: str) -> Key:
    """The key of that id; KeyError where there is none."""
    return next(key for key in KEYS if key.id == name)


def bindings(page: str) -> list[BindingType]:
    """A page's keys as Textual takes them."""
    return [
        Binding(
            key.keys,
            key.action,
            key.label,
            show=key.shown,
            key_display=key.names,
            tooltip=key.help,
            id=f"{page}.{key.id}",
        )
        for key in at(page)
    ]
