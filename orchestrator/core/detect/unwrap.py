"""Lines that a pane cut at its right edge -> whole lines again.

Owns the guess where the edge is and whether a line is the rest of the one before. A log that was
never shown in a pane passes through untouched but for lines exactly as wide as the widest.
"""

import re

from orchestrator.core.detect.sighting import Line
from orchestrator.core.parse.stack_lines import OPEN_FRAME, frame_of, going_on, header_of

PANE_WIDTHS = frozenset({80, 100, 120, 132, 160, 180, 200, 220, 240})
MIN_CUT_LINES = 4
_BOX = "\u2502\u256e\u256f\u2500|+-=*#"
"""Characters at the end of a line that was drawn to this width."""
MAX_JOINED_CHARS = 8000
_STARTS = re.compile(
    r'\s*File "|\s+[~^]+\s*$|Traceback|The above exception|During handling|Exception |Original '
    r"|[\w.]{3,80}(?:Error|Exception|Interrupt): |=====|-----|frame #\d|terminate called|\s+what\(\)"
    r"|Set TORCH|CUDA kernel errors|For debugging|Compile with|Search for `|Last error:|\S+@\S+:\S*[#$]"
    r"|Fatal Python error|(?:Killed|Terminated|Aborted|Segmentation fault|Bus error)\b|slurmstepd: |srun: "
    r"|Extension modules: |(?:Current t|T)hread 0x"
)


class Unwrapper:
    """Holds back a line that may have been cut until the next one shows whether it was."""

    def __init__(self) -> None:
        self._held: Line | None = None
        self._held_width = 0
        """Of the last of the pieces joined so far."""
        self._widest = 0
        self._at_widest = 0
        self._edge = 0

    def feed(self, line: Line) -> list[Line]:
        """The lines that are whole now, in order."""
        width = len(line.text)
        if width > self._widest:
            self._widest, self._at_widest = width, 0
        self._at_widest += width == self._widest
        held, out = self._held, []
        if held is not None:
            if self._continues(held, line):
                gap = " " if self._held_width == self._widest - 1 else ""
                text = f"{held.text}{gap}{line.text}"
                line = held._replace(text=text, end=line.number)
            else:
                out.append(held)
            self._held = None
        if self._cut(line.text, width):
            self._held, self._held_width = line, width
        else:
            out.append(line)
        return out

    def flush(self) -> list[Line]:
        """The line held back, where there is one."""
        held, self._held = self._held, None
        return [held] if held is not None else []

    def _cut(self, text: str, width: int) -> bool:
        if width < max(self._widest - 1, 40) or len(text) > MAX_JOINED_CHARS:
            return False
        opened = 'File "' in text and OPEN_FRAME.search(text) is not None
        # One short of the edge: a blank stood there, and a pane drops those.
        at_edge = opened or self._widest == self._edge or self._widest in PANE_WIDTHS
        if not at_edge and (width < self._widest or self._at_widest < MIN_CUT_LINES):
            return False
        if text[-1] in _BOX or going_on(text):
            return False
        if opened:
            self._edge = self._widest
        return True

    def _continues(self, held: Line, line: Line) -> bool:
        if not line.text.strip() or line.prefix.width or line.text == held.text:
            return False
        if OPEN_FRAME.search(held.text):
            return not line.text.startswith("    ")
        if frame_of(held.text) is not None and line.text[:1].isspace():
            return False
        if held.text.endswith("}") and line.text.startswith("{"):
            return False
        if held.rest.startswith("    ") or _STARTS.match(line.text):
            return False
        if (header := header_of(line.text)) and not line.text.startswith(":\\n", header.end()):
            return False
        return not going_on(line.text)
