"""What every window over a screen has: Escape closes it, and `q` still quits."""

from typing import Generic, TypeVar

from textual.binding import Binding
from textual.screen import ModalScreen

T = TypeVar("T")


class Window(ModalScreen[T | None], Generic[T]):
    """A window that gives a T, or nothing where somebody closed it."""

    BINDINGS = [
        Binding("escape", "close", "close"),
        Binding("q", "app.quit", "quit", show=False),
    ]

    def action_close(self) -> None:
        """Close it with nothing done."""
        self.dismiss(None)
