"""A block or a line -> a finding with its signature.

Owns the making of findings: their words, place, rank and fingerprint. Which signature is meant is
decided in `matching` and `meaning`, whether it ended anything in the verdict.
"""

import re
from collections.abc import Sequence

from orchestrator.core.detect.afterwards import announces_quote
from orchestrator.core.detect.exit_codes import by_exit_code, exit_code, named_rank
from orchestrator.core.detect.fingerprint import fingerprint
from orchestrator.core.detect.matching import Matcher
from orchestrator.core.detect.meaning import Meaning, Meant
from orchestrator.core.detect.places import innermost_in_app
from orchestrator.core.detect.sighting import Line, Reading, Sighting
from orchestrator.core.detect.signatures import Signature
from orchestrator.core.findings import Finding, Frame
from orchestrator.core.parse.stack_lines import frame_of
from orchestrator.core.parse.stack_parts import Kind
from orchestrator.core.parse.traceback import Block

MAX_TRACEBACK_CHARS = 200_000
_OF_SYNTAX = frozenset({"SyntaxError", "IndentationError", "TabError"})
MAX_PLACED_FRAMES = 64
_HOOKED = re.compile(r"(?:\[\w+\]:)*\[rank\d+\]: (?:Traceback |  \+ Exception Group )")
"""torch.distributed's excepthook, which prints what nobody caught: that rank is over.

torchrun's own tags have no blank behind them.
"""
_OF_PEERS = frozenset({"nccl_error", "nccl_timeout"})
"""What ranks die of once another one is dead; of what that died the verdict says."""
_MARKED = re.compile(r"(?:\[\w+\]:)*\[rank\d+\]: (?!Traceback | )")
MIN_MARGIN = 2
MIN_STRANGERS = 3
"""Lines of others behind a traceback's header, with no frame among them, that make it mere text."""


class Classifier:
    """Gives blocks and lines their signature; holds the known signatures and nothing else."""

    def __init__(self, signatures: Sequence[Signature], app_roots: Sequence[str] = ()) -> None:
        self._matcher = Matcher(signatures)
        self._meaning = Meaning(self._matcher)
        self._roots = tuple(app_roots)

    def named(self, signature: str, title: str = "") -> Signature:
        """The signature of that id, and of that title where several have it; else the generic one."""
        return self._matcher.named(signature, title)

    def of_block(self, reading: Reading) -> Sighting:
        """The finding of a closed block."""
        meant = self._meaning.of(reading.block)
        known = meant.signature
        frame = meant.frames[-1] if meant.frames else None
        own = innermost_in_app(meant.frames, self._roots)
        if known.id == "dynamo_compile_error" or own is None:
            own = self._user_code(reading.block) or own
        text = _headline(reading, meant)
        echoed = reading.echoed and not reading.first.prefix.native
        rank = _first_of(meant.rank, reading.rank, named_rank("\n".join(reading.block.text[-40:])))
        finding = Finding(
            signature=known.id,
            role=known.role,
            line=reading.first.number,
            text=text[:2000],
            rank=rank,
            thread=reading.thread,
            traceback=_cut("\n".join(reading.lines)),
            exception=meant.ended,
            root_exception=meant.root,
            frame=frame,
            in_app_frame=own,
            severity=known.severity,
            transient=known.transient,
            family=known.family,
            fingerprint=fingerprint(
                signature=known.id, exception=meant.ended, frame=frame, in_app_frame=own, text=text
            ),
            title=known.title,
            offset=reading.first.offset,
            last_line=reading.last_number,
            ends=_ends(reading, known.id),
            truncated=_truncated(reading),
        )
        return Sighting(
            finding=finding,
            key=reading.key,
            context=reading.context or _context(reading),
            level="" if echoed else reading.level,
            block=True,
            echo=reading.first.prefix.level if echoed else "",
            exit_code=meant.exit_code,
            before=reading.before,
            quoted=_quoted(reading),
            frames_at=_frames_at(meant.frames[-MAX_PLACED_FRAMES:], reading),
            said_at=reading.said_at,
            place_at=_line_of(own, reading),
        )

    def _user_code(self, block: Block) -> Frame | None:
        """The line that dynamo names under "from user code", or the nearest other one of the block."""
        said = [frame_of(line) for part in block.parts for line in part.message]
        named = innermost_in_app([frame for frame in said if frame is not None], self._roots)
        if named is not None:
            return named
        stacks = [frame for part in reversed(block.parts) for frame in part.frames]
        return innermost_in_app(stacks, self._roots)

    def of_line(self, line: Line) -> Sighting | None:
        """The finding of a line outside of every block; None for nearly every line."""
        if line.rest[:1] == "|" and line.rest[-1:] == "|":
            return None  # a row of a table is what somebody lists
        for item in self._matcher.of_line(line.rest, line.text):
            code = exit_code(line.rest)
            if code is not None and item.id == "elastic_child_failed":
                item = self.named(by_exit_code(code))  # noqa: PLW2901  # the code says more than the line
            return Sighting(
                finding=Finding(
                    signature=item.id,
                    role=item.role,
                    line=line.number,
                    text=line.rest.strip()[:2000],
                    rank=_first_of(line.prefix.rank, named_rank(line.rest)),
                    severity=item.severity,
                    transient=item.transient,
                    family=item.family,
                    fingerprint=fingerprint(
                        signature=item.id,
                        exception=None,
                        frame=None,
                        in_app_frame=None,
                        text=line.rest.strip(),
                    ),
                    title=item.title,
                    offset=line.offset,
                    last_line=line.last_number,
                    ends=item.ends,
                    truncated=_is_rest(item, line.rest),
                ),
                key=line.prefix.key,
                level=line.prefix.level,
                exit_code=code,
            )
        return None


def _is_rest(item: Signature, text: str) -> bool:
    rests = item.matcher("rests")
    return rests is not None and rests.search(text) is not None


def _first_of(*numbers: int | None) -> int | None:
    return next((number for number in numbers if number is not None), None)


def _headline(reading: Reading, meant: Meant) -> str:
    if meant.ended is not None:
        return f"{meant.ended.type}: {meant.ended.message}".rstrip(": ")
    said = [line for part in reading.block.parts for line in part.message]
    return said[0] if said else reading.first.rest.strip()


def _context(reading: Reading) -> str:
    """`dump` for a stack that only tells where a program was, `text` for what is no stack of it."""
    block = reading.block
    if _fenced(reading):
        return "text"
    if block.note or _is_printed(reading):
        return "dump"
    if block.strangers >= MIN_STRANGERS and not any(p.frames or p.exception for p in block.parts):
        return "text"
    # A faulthandler dump that no fatal error asked for tells where a program was, no more.
    if block.kind is not Kind.FAULT:
        return ""
    said = "\n".join(line for part in block.parts for line in part.message)
    fatal = "Fatal Python error" in said or any(
        line.startswith("Extension modules: ") for line in block.text
    )
    return "" if fatal or block.headless else "dump"


_MARGIN = re.compile(r"^(?:\\?[>|:#*\s])+$")


def _quoted(reading: Reading) -> bool:
    """Whether the stack stands in a margin, or under words that announce text which is data."""
    if reading.block.kind is Kind.GROUP or reading.block.boxed:
        return False
    if reading.block.indent >= MIN_MARGIN or (reading.shape and _MARGIN.match(reading.shape)):
        return True
    return any(announces_quote(text) for text in reading.before[-2:])


def _is_printed(reading: Reading) -> bool:
    """Whether the stack was printed by a program that goes on: frames in the midst of the log, with
    neither a header above them nor an exception below."""
    block = reading.block
    if not (block.kind is Kind.PYTHON and block.headless and reading.before) or reading.key:
        return False
    return block.part.exception is None and not reading.before[-1].startswith((" ", "\t", "\u2502"))


def _fenced(reading: Reading) -> bool:
    """Whether the stack is the text of a code block that was announced as a sample."""
    above = reading.before[-2:]
    return len(above) > 1 and above[1].startswith("```") and announces_quote(above[0])


def _frames_at(frames: Sequence[Frame], reading: Reading) -> dict[Frame, int]:
    wanted, found = set(frames), dict[Frame, int]()
    for text, number in zip(reading.lines, reading.numbers, strict=True):
        frame = frame_of(text)
        if frame in wanted and frame is not None:
            found.setdefault(frame, number)
    return found


def _line_of(frame: Frame | None, reading: Reading) -> int:
    """The number of the last line that names the frame; 0 where none does as Python would."""
    if frame is None:
        return 0
    words = f'"{frame.file}", line {frame.line}'
    pairs = zip(reversed(reading.lines), reversed(reading.numbers), strict=True)
    return next((number for text, number in pairs if words in text), 0)


def _truncated(reading: Reading) -> bool:
    """Whether the log was cut: its beginning holds the rest of a stack, or its end the first part."""
    block = reading.block
    if not (block.complete or block.kind in (Kind.FAULT, Kind.NATIVE)):
        return True
    if block.headless and block.part.frames and len(block.parts) > 1 and reading.before:
        # A chain's first exception may have had no stack, but not below the rest of one.
        return reading.before[-1][:1] in " \t\u2502\u2570"
    first = block.parts[0].exception
    if first is not None and first.type.endswith("RemoteTraceback") and len(block.parts) > 1:
        return False  # a worker's stack stands inside of its message
    # An error of syntax is printed without a header.
    return block.headless and not (
        block.part.exception and block.part.exception.type in _OF_SYNTAX and block.part.frames
    )


def _ends(reading: Reading, signature: str) -> str | None:
    match reading.context:
        case "thread":
            return "thread"
        case "child":
            return "rank"
        case "" if _HOOKED.match(reading.first.text) and signature not in _OF_PEERS:
            # A program that marks all its lines so may have caught it.
            marked = any(_MARKED.match(text) for text in reading.before)
            return None if marked else "rank"
        case _:
            return None


def _cut(text: str) -> str:
    if len(text) <= MAX_TRACEBACK_CHARS:
        return text
    half = MAX_TRACEBACK_CHARS // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"
