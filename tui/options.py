"""What the command line said, as the app and its screens want it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Fixed for as long as the dashboard runs."""

    name: str
    """Whose daemon it is: the inventory's path, or a replay's title."""
    orch: tuple[str, ...] = ()
    """The command line itself, as argv; empty where there is none to call."""
    read_only: bool = False
