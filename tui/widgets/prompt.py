"""A line to type into at the foot of a screen, for a filter or a search; hidden until asked for."""

from dataclasses import dataclass

from textual.binding import Binding
from textual.message import Message
from textual.widgets import Input


class Prompt(Input):
    """Enter keeps what was typed, Escape drops it; both hide the line."""

    BINDINGS = [Binding("escape", "drop", "drop", show=False)]

    @dataclass
    class Dropped(Message):
        """Escape was pressed."""

        prompt: "Prompt"

        @property
        def control(self) -> "Prompt":
            """The prompt, for `@on` with a selector."""
            return self.prompt

    def __init__(self, hint: str, *, id: str | None = None) -> None:  # noqa: A002  Textual's name
        super().__init__(placeholder=hint, id=id, compact=True)
        self.display = False
        self.cursor_blink = False  # a link may be slow

    def ask(self) -> None:
        """Show the line and take the keys."""
        self.display = True
        # At once, not in the next round: what was typed ahead belongs here.
        self.screen.set_focus(self)
        self.select_all()

    def action_drop(self) -> None:
        """Empty and hide the line."""
        self.value = ""
        self.display = False
        self.post_message(self.Dropped(self))
