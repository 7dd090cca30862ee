"""A block or a line -> a finding with its signature.

Owns the choice among signatures, and which exception and frame of a chain or wrapper are meant.
Whether the finding ended anything is the verdict's question.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from orchestrator.core.detect.afterwards import announces_quote
from orchestrator.core.detect.fingerprint import fingerprint
from orchestrator.core.detect.places import innermost_in_app
from orchestrator.core.detect.prefilter import Suspects
from orchestrator.core.detect.sighting import Line, Reading, Sighting
from orchestrator.core.detect.signatures import Signature
from orchestrator.core.findings import ExceptionText, Finding, Frame, Role
from orchestrator.core.parse.elastic import RankFailure, read_table
from orchestrator.core.parse.traceback import CHAIN_CAUSE, Block, Kind, Part, frame_of

GENERIC = "python_error"
_FALLBACKS = frozenset({"import_error", "hub_or_dataset_error", GENERIC})
"""What code tries first and handles: another exception while handling it tells more."""
MAX_TRACEBACK_CHARS = 200_000
_OF_SYNTAX = frozenset({"SyntaxError", "IndentationError", "TabError"})
MIN_MARGIN = 2
MIN_STRANGERS = 3
"""Lines of others behind a traceback's header, with no frame among them, that make it mere text."""
MAX_REMEMBERED = 512


@dataclass(frozen=True, slots=True)
class Meant:
    """What a block says, once wrappers and chains are seen through."""

    ended: ExceptionText | None
    root: ExceptionText | None
    frames: tuple[Frame, ...]
    """Of the exception that ended it, outermost first."""
    signature: Signature
    rank: int | None = None
    exit_code: int | None = None


class Classifier:
    """Gives blocks and lines their signature; holds the known signatures and nothing else."""

    def __init__(self, signatures: Sequence[Signature], app_roots: Sequence[str] = ()) -> None:
        self._signatures = tuple(signatures)
        self._roots = tuple(app_roots)
        self._by_line = tuple(item for item in self._signatures if item.lines or item.rests)
        self._lines = Suspects([(*item.lines, *item.rests) for item in self._by_line])
        self._says = Suspects([item.says for item in self._signatures])
        self._by_kind: dict[str, frozenset[int]] = {}
        """Positions of the signatures whose types match an exception's."""
        self._seen: dict[tuple[str, str, tuple[str, ...]], Signature] = {}
        self._generic = next(item for item in self._signatures if item.id == GENERIC)

    def named(self, signature: str, title: str = "") -> Signature:
        """The signature of that id, and of that title where several have it; else the generic one."""
        faces = [item for item in self._signatures if item.id == signature]
        return next((item for item in faces if item.title == title), (*faces, self._generic)[0])

    # --- exceptions ---------------------------------------------------------------------------

    def of_text(self, kind: str, said: str, frames: Sequence[Frame] = ()) -> Signature:
        """The signature of an exception: its dotted type, its whole text, and its stack."""
        places = tuple(f"{frame.file}:{frame.function}" for frame in frames)
        known = (kind, said, places)
        if known not in self._seen:
            if len(self._seen) > MAX_REMEMBERED:
                self._seen.clear()
            self._seen[known] = self._search(kind, said, places)
        return self._seen[known]

    def _search(self, kind: str, said: str, places: Sequence[str]) -> Signature:
        by_kind = self._of_kind(kind)
        for index in sorted(by_kind.union(self._says.of(said))):
            item = self._signatures[index]
            if _void(item, said.partition("\n")[0]) or not _in_frames(item, places):
                continue
            says = item.matcher("says")
            if index in by_kind or (says and says.search(said)):
                return item
        return self._generic

    def _of_kind(self, kind: str) -> frozenset[int]:
        if kind not in self._by_kind:
            if len(self._by_kind) > MAX_REMEMBERED:
                self._by_kind.clear()
            matchers = [item.matcher("types") for item in self._signatures]
            self._by_kind[kind] = frozenset(
                index for index, types in enumerate(matchers) if types and types.search(kind)
            )
        return self._by_kind[kind]

    def _of_part(self, part: Part) -> Signature:
        kind = part.exception.type.partition("(")[0] if part.exception else ""
        return self.of_text(kind, part.said, part.frames)

    def meant(self, block: Block) -> Meant:
        """What the block is about: the inner exception of a wrapper, the first one of a chain."""
        if block.kind is Kind.FAULT:
            return self._meant_fault(block)
        if block.kind is Kind.NATIVE:
            return self._meant_native(block)
        parts = [part for part in block.parts if part.exception] or block.parts[-1:]
        chain = _innermost_chain(parts, grouped=block.kind is Kind.GROUP)
        if table := _table(block):
            return self._meant_table(table, chain[-1])
        ended, root = chain[-1], chain[0]
        known = self._of_chain(chain)
        if known.id == GENERIC and len(chain) < len(parts):
            known = next((s for s in map(self._of_part, reversed(parts)) if s.id != GENERIC), known)
            if known.role is Role.CASCADE:
                known = self._generic
        frames = ended.frames
        if root is not ended and _same(root.exception, ended.exception) and root.frames:
            frames = root.frames
        different = root.exception if not _same(root.exception, ended.exception) else None
        return Meant(ended.exception, different, tuple(frames), known)

    def _of_chain(self, chain: Sequence[Part]) -> Signature:
        signatures = [self._of_part(part) for part in chain]
        for index, item in enumerate(signatures[:-1]):
            if item.id == GENERIC or item.role is Role.CASCADE:
                continue
            handled = not chain[index + 1].link.startswith(CHAIN_CAUSE)
            later = next((s for s in signatures[index + 1 :] if s.id not in _FALLBACKS), None)
            if handled and item.id in _FALLBACKS and later is not None:
                continue
            return item
        return signatures[-1]

    def _meant_fault(self, block: Block) -> Meant:
        part = next((item for item in block.parts if item.current and item.frames), block.parts[-1])
        frames = tuple(reversed(part.frames))
        said = "\n".join(line for item in block.parts for line in item.message)
        compiling = any("_dynamo/" in f.file or "_inductor/" in f.file for f in frames)
        others = [item for item in block.parts if item is not part and item.frames]
        known = self.named("segfault")
        if "Fatal Python error" in said and compiling and others:
            known = replace(known, family=self.named("fx_trace_race").family)
        return Meant(None, None, frames, known)

    def _meant_native(self, block: Block) -> Meant:
        part = block.part
        known = self.of_text(part.exception.type if part.exception else "", part.said)
        if known.id in (GENERIC, "elastic_child_failed"):
            known = self.named("segfault")
        return Meant(part.exception, None, (), known)

    def _meant_table(self, table: list[RankFailure], wrapper: Part) -> Meant:
        seen = [row for row in table if row.root] or [
            row for row in table if row.exit_code not in (None, -15)
        ]
        first = (seen or [RankFailure(rank=None, exit_code=None, root=False)])[0]
        if first.exception is not None:
            known = self.of_text(first.exception.type, _tail(first.text), first.frames)
            return Meant(first.exception, None, first.frames, known, first.rank, first.exit_code)
        known = self.named(by_exit_code(first.exit_code or 0))
        return Meant(
            wrapper.exception, None, tuple(wrapper.frames), known, first.rank, first.exit_code
        )

    def of_block(self, reading: Reading) -> Sighting:
        """The finding of a closed block."""
        meant = self.meant(reading.block)
        known = meant.signature
        frame = meant.frames[-1] if meant.frames else None
        own = innermost_in_app(meant.frames, self._roots)
        if known.id == "dynamo_compile_error" or own is None:
            own = self._user_code(reading.block) or own
        text = _headline(reading, meant)
        echoed = reading.echoed and not reading.first.prefix.native
        rank = _first_of(meant.rank, reading.rank, _named_rank("\n".join(reading.block.text[-40:])))
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
            ends=_ends(reading),
            truncated=_truncated(reading),
        )
        return Sighting(
            finding=finding,
            key=reading.key,
            context=reading.context or _context(reading.block),
            level="" if echoed else reading.level,
            block=True,
            echo=reading.first.prefix.level if echoed else "",
            exit_code=meant.exit_code,
            before=reading.before,
            quoted=_quoted(reading),
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

    # --- lines ----------------------------------------------------------------------------------

    def of_line(self, line: Line) -> Sighting | None:
        """The finding of a line outside of every block; None for nearly every line."""
        for index in self._lines.of(line.text):
            item = self._by_line[index]
            lines = item.matcher("lines")
            if lines is None or _void(item, line.rest):
                continue
            if not lines.search(line.rest) and not (item.whole_lines and lines.search(line.text)):
                continue
            code = _exit_code(line.rest)
            if code is not None and item.id == "elastic_child_failed":
                item = self.named(by_exit_code(code))
            return Sighting(
                finding=Finding(
                    signature=item.id,
                    role=item.role,
                    line=line.number,
                    text=line.rest.strip()[:2000],
                    rank=_first_of(line.prefix.rank, _named_rank(line.rest)),
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


_BY_EXIT = {
    -9: "host_oom",
    137: "host_oom",
    -11: "segfault",
    139: "segfault",
    -6: "segfault",
    134: "segfault",
    -7: "segfault",
    -4: "segfault",
    -8: "segfault",
    -15: "interrupted",
    143: "interrupted",
    -2: "interrupted",
    130: "interrupted",
}


def by_exit_code(code: int) -> str:
    """The signature that an exit code or negative signal alone stands for."""
    return _BY_EXIT.get(code, "elastic_child_failed")


_EXIT_CODE = re.compile(
    r"(?:exit ?code|return code|exit status|returncode)[ :=]+(-?\d{1,3})\b|exited with (?:exit )?code (\d{1,3})\b"
    r"|exited on signal (?P<signal>\d{1,2})\b",
    re.IGNORECASE,
)
_LOCAL_RANK = re.compile(
    r"\(RANK (\d+)\)|\blocal_rank: (\d+)|\bprocess (\d+) terminated with|\bProcess (\d+) terminated with"
    r"|\bprocess rank (\d+) with PID"
)


def _exit_code(text: str) -> int | None:
    found = _EXIT_CODE.search(text)
    if found is None:
        return None
    return -int(found["signal"]) if found["signal"] else int(found[1] or found[2])


def _first_of(*numbers: int | None) -> int | None:
    return next((number for number in numbers if number is not None), None)


def _named_rank(text: str) -> int | None:
    found = _LOCAL_RANK.search(text)
    return int(next(filter(None, found.groups()))) if found else None


def _void(item: Signature, text: str) -> bool:
    unless = item.matcher("unless")
    return unless is not None and unless.search(text) is not None


def _is_rest(item: Signature, text: str) -> bool:
    rests = item.matcher("rests")
    return rests is not None and rests.search(text) is not None


def _in_frames(item: Signature, places: Sequence[str]) -> bool:
    frames = item.matcher("frames")
    return frames is None or any(frames.search(place) for place in places)


def _innermost_chain(parts: Sequence[Part], *, grouped: bool) -> Sequence[Part]:
    """The parts that tell: behind the last wrapper, or a group's first leaf."""
    starts = [index for index, part in enumerate(parts) if part.inner]
    if not starts:
        return parts
    if grouped:
        stop = next((i for i in starts[1:]), len(parts))
        return parts[starts[0] : stop]
    return parts[starts[-1] :]


def _same(one: ExceptionText | None, other: ExceptionText | None) -> bool:
    return one is None or other is None or one == other


def _table(block: Block) -> list[RankFailure]:
    part = next(
        (p for p in block.parts if p.exception and "ChildFailedError" in p.exception.type), None
    )
    return read_table(part.message) if part is not None else []


def _tail(text: str) -> str:
    """The exception's own lines at the end of a recorded traceback."""
    lines = text.split("\n")
    starts = [i for i, line in enumerate(lines) if re.match(r"^  \S", line)]
    return "\n".join(line.strip() for line in lines[starts[0] :]) if starts else text


def _headline(reading: Reading, meant: Meant) -> str:
    if meant.ended is not None:
        return f"{meant.ended.type}: {meant.ended.message}".rstrip(": ")
    said = [line for part in reading.block.parts for line in part.message]
    return said[0] if said else reading.first.rest.strip()


def _context(block: Block) -> str:
    """`dump` for a stack that only tells where a program was, `text` for a header without one."""
    if block.note:
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


_MARGIN = re.compile(r"^(?:\\?[>|:#*\s]|\\ )+$")


def _quoted(reading: Reading) -> bool:
    """Whether the stack stands in a margin, or under words that announce text which is data."""
    if reading.block.kind is Kind.GROUP or reading.block.boxed:
        return False
    if reading.block.indent >= MIN_MARGIN or (reading.shape and _MARGIN.match(reading.shape)):
        return True
    return any(announces_quote(text) for text in reading.before[-2:])


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
    # An error of syntax is printed without a header.
    return block.headless and not (
        block.part.exception and block.part.exception.type in _OF_SYNTAX and block.part.frames
    )


def _ends(reading: Reading) -> str | None:
    match reading.context:
        case "thread":
            return "thread"
        case "child":
            return "rank"
        case _:
            return None


def _cut(text: str) -> str:
    if len(text) <= MAX_TRACEBACK_CHARS:
        return text
    half = MAX_TRACEBACK_CHARS // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"
