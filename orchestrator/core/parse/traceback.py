"""Stacks as programs print them: one block of lines -> its frames and exceptions.

Owns the grammar of plain Python tracebacks (chained, grouped, inside a wrapper); `other_stacks` has
that of the others. A block is offered line after line and says which ones are its own; what a block
means is decided elsewhere.
"""

from orchestrator.core.findings import ExceptionText, Frame
from orchestrator.core.parse.other_stacks import offer_fault, offer_native, offer_rich
from orchestrator.core.parse.stack_lines import (
    CHAIN,
    FOREIGN,
    LINKED,
    NOTEBOOK_ARROW,
    NOTEBOOK_FRAME,
    OPEN_FRAME,
    RULER,
    TABLE_LINE,
    announces,
    exception_of,
    frame_of,
    going_on,
    header_of,
    is_long,
    without_margin,
)
from orchestrator.core.parse.stack_parts import MAX_MESSAGE_LINES, Kind, Offer, Part, Stack

MAX_STRANGERS = 200
"""Lines of others that may stand between two lines of one block."""
MAX_LATE_LINES = 6
"""Lines behind a message among which a chain's link is still looked for."""
MAX_TABLE_LINES = 4000
TABLE_EXCEPTION = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError"
MAX_TEXT_LINES = 3000


class Block(Stack):
    """A stack being read; `offer` it lines until it has ended."""

    __slots__ = ()

    def offer(self, text: str) -> Offer:
        """Whether the line is the block's own; the text is without prefix and escapes."""
        if self.kind is Kind.FAULT:
            answer = offer_fault(self, text)
        elif self.kind is Kind.NATIVE:
            answer = offer_native(self, text)
        elif self.kind is Kind.RICH:
            answer = offer_rich(self, text)
        else:
            answer = self._offer_python(self._dedent(text))
            self.ruled = self.kind is Kind.GROUP and RULER.match(text) is not None
        if answer is Offer.TAKEN:
            self.strangers = 0
            if len(self.text) < MAX_TEXT_LINES:
                self.text.append(text)
        elif answer is Offer.PASSED:
            self.strangers += 1
            if self.strangers > MAX_STRANGERS:
                return Offer.ENDED
        return answer

    def _dedent(self, text: str) -> str:
        if self.kind is Kind.GROUP:
            return without_margin(text)
        if self.indent and not text[: self.indent].strip():
            return text[self.indent :]
        return text

    def _offer_python(self, text: str) -> Offer:
        if self.state == "frames":
            return self._offer_frame(text)
        if self.state == "between":
            return self._offer_between(text)
        if self.state == "lingering":
            return self._offer_late(text)
        return self._offer_message(text)

    def _offer_frame(self, text: str) -> Offer:
        frame = frame_of(text)
        if frame is not None and not (text[:1].isalpha() and exception_of(text, sure=True)):
            self.add(frame)
            return Offer.TAKEN
        if text[:1] in (" ", "\t"):
            return Offer.TAKEN if self.part.frames or OPEN_FRAME.match(text) else Offer.PASSED
        if not text:
            return Offer.PASSED
        if OPEN_FRAME.match(text) or self._offer_notebook(text):
            return Offer.TAKEN
        if header_of(text):
            return Offer.PASSED
        if (exception := exception_of(text)) is not None:
            self._close_part(exception, text)
            return Offer.TAKEN
        return Offer.ENDED if self.note else Offer.PASSED

    def _offer_notebook(self, text: str) -> bool:
        """Whether the line is IPython's: a frame, or the arrow to its line."""
        if (found := NOTEBOOK_FRAME.match(text)) is not None:
            number = found["line"] or found["cell_line"] or "0"
            place = found["file"] or found["cell"]
            function = (found["function"] or found["cell_function"] or "<module>").rpartition(".")[
                2
            ]
            self.add(Frame(file=place, line=int(number), function=function))
            return True
        if (arrow := NOTEBOOK_ARROW.match(text)) is None:
            return False
        if self.part.frames and not self.part.frames[-1].line:
            last = self.part.frames[-1]
            self.part.frames[-1] = Frame(
                file=last.file, line=int(arrow["line"]), function=last.function
            )
        return True

    def begin_at(self, exception: ExceptionText, text: str) -> None:
        """Starts the block at its exception: what stood above is not in the log."""
        self._close_part(exception, text)
        self.text.append(text)

    @classmethod
    def of_table(cls, text: str) -> "Block":
        """A block for torchrun's failure table whose first lines are not in the log."""
        block = cls(Kind.LOOSE, headless=True)
        block.begin_at(ExceptionText(type=TABLE_EXCEPTION, message=""), "")
        block.part.message.append(text)
        return block

    def _close_part(self, exception: ExceptionText, text: str) -> None:
        self.part.exception = exception
        self.part.message = [text]
        self.long_message = is_long(text) or not exception.message
        self.state, self.blanks = "message", 0

    def _offer_between(self, text: str) -> Offer:
        if not text.strip():
            return Offer.TAKEN
        if header_of(text):
            self.state = "frames"
            if "\u2500" in text:
                self.kind = Kind.RICH
            return Offer.TAKEN
        return Offer.PASSED

    def _offer_message(self, text: str) -> Offer:
        bare = text.strip()
        if not bare:
            self.blanks += 1
            return Offer.TAKEN if self.blanks < 4 else Offer.ENDED
        if self.part.exception and self.part.exception.type.endswith("ChildFailedError"):
            return self._offer_table(text)
        if self._links(bare) or self._opens_ray(text):
            return Offer.TAKEN
        if header_of(text):
            return self._offer_inner(text)
        if self.kind is Kind.GROUP and (bare[:1] in "+|" or self._opens_leaf(text)):
            return Offer.TAKEN
        if self._continues(text):
            if len(self.part.message) < MAX_MESSAGE_LINES:
                self.part.message.append(text)
            if not self.part.exception or not self.part.exception.message:
                self._first_words(bare)
            self.blanks = 0
            return Offer.TAKEN
        if going_on(text) or FOREIGN.match(text) or frame_of(text) is not None:
            return Offer.ENDED
        self.state, self.late = "lingering", 0
        return Offer.PASSED

    def _links(self, bare: str) -> bool:
        """Whether the line joins another exception to this one."""
        if not CHAIN.match(bare):
            return False
        self.begin(Part(link=bare))
        self.state = "between"
        return True

    def end_message(self) -> None:
        """Takes no more lines into a message, whatever they look like."""
        if self.state == "message" and self.kind in (Kind.PYTHON, Kind.LOOSE):
            self.state, self.late = "lingering", 0

    def _opens_leaf(self, text: str) -> bool:
        """Whether the line is an exception of a group that was never raised, hence has no stack."""
        if not self.ruled or (exception := exception_of(text)) is None:
            return False
        self.begin(Part(inner=True))
        self._close_part(exception, text)
        return True

    def _opens_ray(self, text: str) -> bool:
        """Whether the line is the first frame of a task's own stack, headless in Ray's."""
        if self.part.exception is None or "RayTaskError" not in self.part.exception.type:
            return False
        if (frame := frame_of(text)) is None:
            return False
        self.begin(Part(inner=True, frames=[frame]))
        self.state, self.indent = "frames", 0
        return True

    def _offer_late(self, text: str) -> Offer:
        """Behind a message that went on in words of its own only a chain's link is still ours."""
        if self._links(text.strip()):
            return Offer.TAKEN
        self.late += 1
        if self.late > MAX_LATE_LINES or header_of(text) or FOREIGN.match(text):
            return Offer.ENDED
        return Offer.ENDED if going_on(text) or frame_of(text) is not None else Offer.PASSED

    def _offer_table(self, text: str) -> Offer:
        if not TABLE_LINE.match(text):
            return Offer.ENDED
        if len(self.part.message) < MAX_TABLE_LINES:
            self.part.message.append(text)
        return Offer.TAKEN

    def _first_words(self, text: str) -> None:
        if self.part.exception is not None and not text.startswith(("=", "-", "*", '"""')):
            self.part.exception = ExceptionText(type=self.part.exception.type, message=text[:2000])

    def _offer_inner(self, text: str) -> Offer:
        inside = text[:1] in (" ", "\t", "|") or announces(self.part.message[-4:] + self.text[-2:])
        if self.kind is not Kind.GROUP and not inside:
            return Offer.ENDED
        self.begin(Part(inner=True))
        self.state = "frames"
        self.indent = max(0, len(text) - len(text.lstrip()))
        return Offer.TAKEN

    def _continues(self, text: str) -> bool:
        if len(self.part.message) >= MAX_MESSAGE_LINES:
            return False
        if LINKED.match(text.strip()):
            return True
        if text[:1] in (" ", "\t"):
            return self.blanks == 0 or self.long_message
        return self.long_message and not going_on(text) and not FOREIGN.match(text)
