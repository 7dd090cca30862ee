"""What a block is about, once wrappers, chains and tables are seen through.

Owns which exception and frame of several are meant. Whether it ended anything is the verdict's
question.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from orchestrator.core.detect.exit_codes import by_exit_code
from orchestrator.core.detect.matching import GENERIC, Matcher
from orchestrator.core.detect.signatures import Signature
from orchestrator.core.findings import ExceptionText, Frame, Role
from orchestrator.core.parse.elastic import RankFailure, read_table
from orchestrator.core.parse.stack_lines import CHAIN_CAUSE
from orchestrator.core.parse.stack_parts import Kind, Part
from orchestrator.core.parse.traceback import Block

_FALLBACKS = frozenset({"import_error", "hub_or_dataset_error", GENERIC})
"""What code tries first and handles: another exception while handling it tells more."""


_WORKER_CODE = re.compile(
    r"DataLoader worker \(pid \d+\) exited unexpectedly with exit code (-?\d+)"
)


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


class Meaning:
    """Reads blocks with the signatures of a matcher."""

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher

    def of(self, block: Block) -> Meant:
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
        known = self._of_worker(chain) or self._of_chain(chain)
        if known.id == GENERIC and len(chain) < len(parts):
            known = next((s for s in map(self._of_part, reversed(parts)) if s.id != GENERIC), known)
            if known.role is Role.CASCADE:
                known = self._matcher.generic
        frames = ended.frames
        if block.kind is Kind.GROUP:  # an exception that was never raised has no stack of its own
            frames = frames or parts[0].frames
        if root is not ended and _same(root.exception, ended.exception) and root.frames:
            frames = root.frames
        different = root.exception if not _same(root.exception, ended.exception) else None
        return Meant(ended.exception, different, tuple(frames), known)

    def _of_worker(self, chain: Sequence[Part]) -> Signature | None:
        """By the exit code of a DataLoader's worker, where the chain tells one."""
        found = next(filter(None, (_WORKER_CODE.search(part.said) for part in chain)), None)
        if found is None:
            return None
        signature = by_exit_code(int(found[1]))
        return self._matcher.named(GENERIC if signature == "elastic_child_failed" else signature)

    def _of_part(self, part: Part) -> Signature:
        kind = part.exception.type.partition("(")[0] if part.exception else ""
        return self._matcher.of_text(kind, part.said, part.frames)

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
        known = self._matcher.named("segfault")
        if "Fatal Python error" in said and compiling and others:
            known = replace(known, family=self._matcher.named("fx_trace_race").family)
        return Meant(None, None, frames, known)

    def _meant_native(self, block: Block) -> Meant:
        part = block.part
        known = self._matcher.of_text(part.exception.type if part.exception else "", part.said)
        if known.id in (GENERIC, "elastic_child_failed"):
            known = self._matcher.named("segfault")
        return Meant(part.exception, None, (), known)

    def _meant_table(self, table: list[RankFailure], wrapper: Part) -> Meant:
        seen = [row for row in table if row.root] or [
            row for row in table if row.exit_code not in (None, -15)
        ]
        first = (seen or [RankFailure(rank=None, exit_code=None, root=False)])[0]
        if first.exception is not None:
            known = self._matcher.of_text(first.exception.type, _tail(first.text), first.frames)
            return Meant(first.exception, None, first.frames, known, first.rank, first.exit_code)
        known = self._matcher.named(by_exit_code(first.exit_code or 0))
        return Meant(
            wrapper.exception, None, tuple(wrapper.frames), known, first.rank, first.exit_code
        )


def _innermost_chain(parts: Sequence[Part], *, grouped: bool) -> Sequence[Part]:
    """The parts that tell: behind the last wrapper, or a group's first leaf."""
    starts = [index for index, part in enumerate(parts) if part.inner]
    if not starts:
        return parts
    if grouped:
        first = next((i for i in starts if not _is_group(parts[i])), starts[0])
        stop = next((i for i in starts if i > first), len(parts))
        return parts[first:stop]
    return parts[starts[-1] :]


def _is_group(part: Part) -> bool:
    return part.exception is not None and part.exception.type.endswith("ExceptionGroup")


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
