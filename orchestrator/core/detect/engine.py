"""The streaming reader of a log: chunks of bytes in, findings out, one verdict at the end.

Owns the walk over the bytes: lines that no pattern names are counted and forgotten; around the
others it cleans, weaves and classifies. Memory is bounded whatever the input.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from orchestrator.core.detect.classify import Classifier
from orchestrator.core.detect.matching import GENERIC
from orchestrator.core.detect.notes import Notes
from orchestrator.core.detect.pace import Pace
from orchestrator.core.detect.prefilter import Prefilter, Rarities
from orchestrator.core.detect.sighting import Line, Reading, Sighting, Spoken
from orchestrator.core.detect.signatures import Signature, load
from orchestrator.core.detect.unfold import unfold
from orchestrator.core.detect.unwrap import Unwrapper
from orchestrator.core.detect.verdict import Case, conclude
from orchestrator.core.detect.weave import Weaver
from orchestrator.core.findings import Finding, Verdict
from orchestrator.core.model import ExitRecord
from orchestrator.core.parse.kernel_log import KernelEvent
from orchestrator.core.parse.terminal import Prefix, clean, read_prefix

SLAB_BYTES = 1 << 16
MAX_LINE_BYTES = 1 << 16
TAIL_BYTES = 1 << 15
FIRST_LINES = 400
"""Read at the beginning whatever they say: a pane's capture is cut at its edge, and a pattern that
spans the cut names neither half."""
WATCH_LINES = 60
"""Ordinary lines that are read behind a finding, to see whether life goes on."""
HELD_BYTES = 8 << 20
"""Kept together, once the budget of reading is spent, before parts of it are read."""
LAST_BYTES = 1 << 17
"""Read at a log's end, whatever the budget says: there stands why it ended."""
LAST_OF_HELD_BYTES = 1 << 11
LAST_OF_QUIET_BYTES = 1 << 14
_SLOW = re.compile(r"[.\])wdsS}][*+{]|\(\?i|\|\$|^\^|\$$")
"""Patterns with gaps and repeats: too slow to look for in all that is not read."""
MAX_SAID_CHARS = 2000


class Engine:
    """Reads one attempt's log as it grows; `feed`, `quiet`, and `close` once."""

    def __init__(self, rules: Sequence[Signature] = (), app_roots: Sequence[str] = ()) -> None:
        signatures = (*rules, *load())
        self._classifier = Classifier(signatures, app_roots)
        self._prefilter = Prefilter(
            tuple(p for item in signatures for p in (*item.lines, *item.rests))
        )
        self._pace = Pace(
            Rarities(
                tuple(
                    pattern
                    for item in signatures
                    if item.id != GENERIC
                    for pattern in (*item.lines, *item.says)
                    if not _SLOW.search(pattern)
                )
            )
        )
        self._signatures = signatures
        self._weaver = Weaver()
        self._unwrapper = Unwrapper()
        self._rest = b""
        self._offset = 0
        """Of the first byte of `_rest`."""
        self._number = 1
        """Of the line that begins there."""
        self._watch = FIRST_LINES
        self._tail = b""
        self._notes = Notes()
        self._held: list[bytes] = []
        """Not read yet, for want of budget."""
        self._num_held = 0

    # --- in ---------------------------------------------------------------------------------------

    def feed(self, chunk: bytes, t: float | None = None) -> list[Finding]:  # noqa: ARG002  # part of the interface: hang detection reads it
        """Takes the next bytes of the log and returns the findings whose blocks ended in them."""
        if self._pace.thrifty():
            return self._hold(chunk)
        data = self._rest + chunk
        cut = data.rfind(b"\n") + 1
        if len(data) - cut > MAX_LINE_BYTES:
            cut = max(cut, data.rfind(b"\r") + 1)
            if len(data) - cut > MAX_LINE_BYTES:
                cut = len(data)
        self._rest = data[cut:]
        found: list[Finding] = []
        start = 0
        while start < cut:
            stop = min(start + SLAB_BYTES, cut)
            if stop < cut:
                stop = data.rfind(b"\n", start, stop) + 1 or stop
            found += self._stretch(data[start:stop])
            start = stop
            if self._pace.thrifty():
                self._rest = b""
                return found + self._hold(data[start:])
        return found

    def pass_over(self, chunk: bytes) -> None:
        """Counts the bytes and lines of a log's beginning that is not to be read."""
        self._number += chunk.count(b"\n")
        self._offset += len(chunk)

    def quiet(self) -> list[Finding]:
        """Called when 250 ms passed without a byte: ends the blocks that are complete."""
        found = self._unhold(LAST_OF_QUIET_BYTES)
        if self._rest and (not self._weaver.idle or self._watch):
            data, self._rest = self._rest, b""
            found += self._stretch(data)
        for line in self._unwrapper.flush():
            found += self._read(line)
        return found + [self._note(reading) for reading in self._weaver.settle()]

    def close(
        self, exit_record: ExitRecord | None = None, kernel: Sequence[KernelEvent] = ()
    ) -> Verdict:
        """The verdict; the engine takes nothing more."""
        self._unhold(LAST_BYTES)
        if self._rest:
            data, self._rest = self._rest, b""
            self._stretch(data)
        for line in self._unwrapper.flush():
            self._read(line)
        for reading in self._weaver.finish():
            self._note(reading)
        case = Case(
            sightings=self._notes.sightings,
            said=self._notes.said,
            tail=tuple(self._tail_lines()),
            lines=self._number - 1,
            exit_record=exit_record,
            kernel=tuple(kernel),
        )
        return conclude(case, self._classifier)

    # --- the walk ---------------------------------------------------------------------------------

    def _hold(self, chunk: bytes) -> list[Finding]:
        """Keeps what comes while the budget is spent; of much of it, reads parts."""
        self._held += (self._rest, chunk)
        self._num_held += len(self._rest) + len(chunk)
        self._rest = b""
        if self._num_held < HELD_BYTES + LAST_BYTES:
            return []
        data = b"".join(self._held)
        cut = data.rfind(b"\n", 0, len(data) - LAST_BYTES) + 1 or len(data) - LAST_BYTES
        self._held, self._num_held = [data[cut:]], len(data) - cut
        found = self._sample(data, cut, LAST_OF_HELD_BYTES)
        if self._pace.thrifty():
            return found
        rest, self._held, self._num_held = data[cut:], [], 0
        return found + self.feed(rest)

    def _unhold(self, last_bytes: int) -> list[Finding]:
        """Reads parts of what was kept, its end among them, up to its last line's beginning."""
        if not self._held:
            return []
        data = b"".join(self._held)
        cut = data.rfind(b"\n") + 1
        self._held, self._num_held, self._rest = [], 0, data[cut:]
        return self._sample(data, cut, last_bytes)

    def _sample(self, data: bytes, end: int, last_bytes: int) -> list[Finding]:
        """Reads parts of the whole lines before `end`."""
        found: list[Finding] = []
        position = 0
        for start, stop in self._pace.parts(data, end, last_bytes):
            found += self._skip(data, position, start) + self._stretch(data[start:stop])
            position = stop
        return found + self._skip(data, position, end)

    def _skip(self, data: bytes, start: int, stop: int) -> list[Finding]:
        """Passes over whole lines unread."""
        if start >= stop:
            return []
        found: list[Finding] = []
        for line in self._unwrapper.flush():
            found += self._read(line)
        found += [self._note(reading) for reading in self._weaver.finish()]
        self._number += data.count(b"\n", start, stop)
        self._offset += stop - start
        self._tail = data[max(start, stop - TAIL_BYTES) : stop]
        self._pace.spend(read=0, passed=stop - start)
        return found

    def _stretch(self, data: bytes) -> list[Finding]:
        """Reads the lines that a pattern names, and those that follow while something is open."""
        found: list[Finding] = []
        ends = sorted(set(self._prefilter.ends(data)))
        position, counted, hit, read = 0, 0, 0, 0
        while position < len(data):
            if self._weaver.idle and not self._watch:
                while hit < len(ends) and ends[hit] <= position:
                    hit += 1
                if hit == len(ends):
                    break
                position = max(position, data.rfind(b"\n", 0, max(ends[hit] - 1, 0)) + 1)
                self._number += data.count(b"\n", counted, position)
                counted = position
                self._recall(data, position)
                self._watch = 1
            stop = data.find(b"\n", position) + 1 or len(data)
            found += self._line(data[position:stop], self._offset + position, self._number)
            self._number += 1
            read += 1
            position = counted = stop
        self._number += data.count(b"\n", counted)
        self._offset += len(data)
        self._tail = (self._tail + data[-TAIL_BYTES:])[-TAIL_BYTES:]
        self._pace.spend(read=read, passed=len(data))
        return found

    def _recall(self, data: bytes, position: int) -> None:
        """Gives the weaver the two lines above the one that woke it."""
        above = (
            (self._tail[-2048:] + data[:position])[-2048:]
            if position < 2048
            else data[position - 2048 : position]
        )
        lines = above.split(b"\n")[-3:-1]
        for index, raw in enumerate(lines, start=self._number - len(lines)):
            text = clean(raw)[-1]
            self._weaver.recall(Line(index, 0, text, read_prefix(text)))

    def _line(self, raw: bytes, offset: int, number: int) -> list[Finding]:
        found: list[Finding] = []
        self._watch = max(0, self._watch - 1 - len(raw) // MAX_SAID_CHARS)
        first: Prefix | None = None
        for text in clean(raw):
            prefix = read_prefix(text)
            if first is None:
                first = prefix
            elif first.key and not prefix.key:
                prefix = replace(prefix, key=first.key, rank=first.rank)
            for line in self._unwrapper.feed(Line(number, offset, text, prefix)):
                found += self._read(line)
        if not self._watch and self._weaver.idle:
            for line in self._unwrapper.flush():
                found += self._read(line)
        return found

    def _read(self, line: Line) -> list[Finding]:
        """Takes one whole line, which may hold a stack with escaped line ends."""
        texts = unfold(line.text)
        if len(texts) == 1 and texts[0] is line.text:
            return self._take(line)
        found: list[Finding] = []
        for text in texts:
            prefix = read_prefix(text)
            if line.prefix.key and not prefix.key:
                prefix = replace(prefix, key=line.prefix.key, rank=line.prefix.rank)
            found += self._take(Line(line.number, line.offset, text, prefix, line.end))
        return found

    def _take(self, line: Line) -> list[Finding]:
        taken, closed = self._weaver.feed(line)
        found = [self._note(reading) for reading in closed]
        if taken:
            return found
        sighting = self._classifier.of_line(line)
        if sighting is not None:
            self._keep(sighting)
            found.append(sighting.finding)
        elif line.text:
            text = line.rest[:MAX_SAID_CHARS]
            self._notes.say(Spoken(line.number, line.prefix.key, line.prefix.level, text))
        return found

    def _note(self, reading: Reading) -> Finding:
        sighting = self._classifier.of_block(reading)
        self._keep(sighting)
        return sighting.finding

    def _keep(self, sighting: Sighting) -> None:
        self._watch = max(self._watch, WATCH_LINES)
        self._notes.keep(sighting)

    def _tail_lines(self) -> Iterable[Spoken]:
        """The last lines of the log, read or not."""
        raw = self._tail.split(b"\n")
        if raw and not raw[-1]:
            raw.pop()
        first = self._number - len(raw)
        for index, line in enumerate(raw[-200:], start=max(first, first + len(raw) - 200)):
            for text in clean(line)[-1:]:
                prefix = read_prefix(text)
                yield Spoken(index, prefix.key, prefix.level, text[prefix.width :])


def diagnose(
    chunks: Iterable[bytes],
    rules: Sequence[Signature] = (),
    app_roots: Sequence[str] = (),
    exit_record: ExitRecord | None = None,
    kernel: Sequence[KernelEvent] = (),
) -> Verdict:
    """The verdict on a whole log given in chunks of any size."""
    engine = Engine(rules, app_roots)
    for chunk in chunks:
        engine.feed(chunk)
    return engine.close(exit_record, kernel)
