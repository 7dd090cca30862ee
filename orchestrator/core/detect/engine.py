"""The streaming reader of a log: chunks of bytes in, findings out, one verdict at the end.

Owns the walk over the bytes: lines that no pattern names are counted and forgotten; around the
others it cleans, weaves and classifies. Memory is bounded whatever the input.
"""

import re
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace

from orchestrator.core.detect.classify import GENERIC, Classifier
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

SLAB_BYTES = 1 << 18
MAX_LINE_BYTES = 1 << 16
TAIL_BYTES = 1 << 15
FIRST_LINES = 400
"""Read at the beginning whatever they say: a pane's capture is cut at its edge, and a pattern that
spans the cut names neither half."""
WATCH_LINES = 60
"""Ordinary lines that are read behind a finding, to see whether life goes on."""
FLOOD_BYTES = 1 << 20
FLOOD_NOTES = 1000
"""Bytes read line by line, or findings made, after which a dense log is sampled."""
FLOOD_SLAB_BYTES = 4 << 20
FLOOD_PART_BYTES = 4 << 10
"""What is read of a slab's end in a flood; of its beginning an eighth of it."""
_SLOW = re.compile(r"[.\])wdsS}][*+{]|\(\?i|\|\$|^\^|\$$")
"""Patterns with gaps and repeats: too slow to look for in a flood."""
KEEP_SIGHTINGS = 400
KEEP_LINES = 3000
MAX_SAID_CHARS = 2000


class Engine:
    """Reads one attempt's log as it grows; `feed`, `quiet`, and `close` once."""

    def __init__(self, rules: Sequence[Signature] = (), app_roots: Sequence[str] = ()) -> None:
        signatures = (*rules, *load())
        self._classifier = Classifier(signatures, app_roots)
        self._prefilter = Prefilter(tuple(p for item in signatures for p in item.lines))
        self._rarities = Rarities(
            tuple(
                pattern
                for item in signatures
                if item.id != GENERIC
                for pattern in (*item.lines, *item.says)
                if not _SLOW.search(pattern)
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
        self._first: list[Sighting] = []
        self._known: set[str] = set()
        """Signatures among them: the first of each is kept however many others there are."""
        self._last: deque[Sighting] = deque(maxlen=KEEP_SIGHTINGS)
        self._said: list[Spoken] = []
        self._said_last: deque[Spoken] = deque(maxlen=KEEP_LINES)
        self._num_read = 0
        """Bytes read line by line so far."""
        self._num_noted = 0
        self._flooded = False

    # --- in ---------------------------------------------------------------------------------------

    def feed(self, chunk: bytes, t: float | None = None) -> list[Finding]:  # noqa: ARG002  # part of the interface: hang detection reads it
        """Takes the next bytes of the log and returns the findings whose blocks ended in them."""
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
            stop = min(start + (FLOOD_SLAB_BYTES if self._flooded else SLAB_BYTES), cut)
            if stop < cut:
                stop = data.rfind(b"\n", start, stop) + 1 or stop
            found += self._slab(data[start:stop])
            start = stop
        return found

    def quiet(self) -> list[Finding]:
        """Called when 250 ms passed without a byte: ends the blocks that are complete."""
        found: list[Finding] = []
        if self._rest and (not self._weaver.idle or self._watch):
            data, self._rest = self._rest, b""
            found += self._slab(data)
        for line in self._unwrapper.flush():
            found += self._read(line)
        return found + [self._note(reading) for reading in self._weaver.settle()]

    def close(
        self, exit_record: ExitRecord | None = None, kernel: Sequence[KernelEvent] = ()
    ) -> Verdict:
        """The verdict; the engine takes nothing more."""
        if self._rest:
            data, self._rest = self._rest, b""
            self._slab(data)
        for line in self._unwrapper.flush():
            self._read(line)
        for reading in self._weaver.finish():
            self._note(reading)
        case = Case(
            sightings=(*self._first, *self._last),
            said=(*self._said, *self._said_last),
            tail=tuple(self._tail_lines()),
            lines=self._number - 1,
            exit_record=exit_record,
            kernel=tuple(kernel),
        )
        return conclude(case, self._classifier)

    # --- the walk ---------------------------------------------------------------------------------

    def _slab(self, data: bytes) -> list[Finding]:
        """Reads whole lines; of a slab in a flood of stacks its two ends and what is rare in it."""
        if not self._flooded or len(data) < SLAB_BYTES:
            return self._stretch(data)
        first = data.find(b"\n", FLOOD_PART_BYTES // 8) + 1 or len(data)
        last = max(first, data.rfind(b"\n", first, len(data) - FLOOD_PART_BYTES) + 1)
        found, read = self._stretch(data[:first]), first
        for end in self._rarities.ends(data[first:last]):
            start = data.rfind(b"\n", first, max(first, first + end - FLOOD_PART_BYTES)) + 1
            start = max(read, start or first)
            stop = data.find(b"\n", first + end + FLOOD_PART_BYTES // 4, last) + 1 or last
            if stop > read:
                found += self._skip(data, read, start) + self._stretch(data[start:stop])
                read = stop
        return found + self._skip(data, read, last) + self._stretch(data[last:])

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
            read += stop - position
            position = counted = stop
        self._number += data.count(b"\n", counted)
        self._offset += len(data)
        self._tail = (self._tail + data[-TAIL_BYTES:])[-TAIL_BYTES:]
        self._num_read += read
        dense = read > len(data) // 2
        self._flooded = dense and (self._num_read > FLOOD_BYTES or self._num_noted > FLOOD_NOTES)
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
            self._say(Spoken(line.number, line.prefix.key, line.prefix.level, text))
        return found

    def _note(self, reading: Reading) -> Finding:
        sighting = self._classifier.of_block(reading)
        self._keep(sighting)
        return sighting.finding

    def _keep(self, sighting: Sighting) -> None:
        self._watch = max(self._watch, WATCH_LINES)
        self._num_noted += 1
        new = sighting.finding.signature not in self._known
        if len(self._first) < KEEP_SIGHTINGS or new:
            self._known.add(sighting.finding.signature)
            self._first.append(sighting)
        else:
            self._last.append(sighting)

    def _say(self, spoken: Spoken) -> None:
        if len(self._said) < KEEP_LINES:
            self._said.append(spoken)
        else:
            self._said_last.append(spoken)

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
