"""The walk over a log's lines: what a pattern names is read, with what follows it.

Owns the place in the log, and what is open there. Lines that no pattern names are counted and
forgotten; around the others it cleans, weaves and classifies.
"""

import copy
from collections.abc import Iterable

from orchestrator.core.detect.classify import Classifier
from orchestrator.core.detect.notes import Notes
from orchestrator.core.detect.pace import FINDING_LINES, Pace
from orchestrator.core.detect.prefilter import Prefilter
from orchestrator.core.detect.sighting import Line, Reading, Sighting, Spoken
from orchestrator.core.detect.unfold import STACK_KEY, unfold
from orchestrator.core.detect.unwrap import Unwrapper
from orchestrator.core.detect.weave import Weaver
from orchestrator.core.findings import Finding
from orchestrator.core.parse.terminal import Prefix, clean, read_prefix

TAIL_BYTES = 1 << 15
FIRST_LINES = 400
"""Read at the beginning whatever they say: a pane's capture is cut at its edge, and a pattern that
spans the cut names neither half."""
WATCH_LINES = 60
"""Ordinary lines that are read behind a finding, to see whether life goes on."""
MAX_SAID_CHARS = 2000
LONG_BYTES = 2000
"""Of a longer line each so many count as a line."""


class Walk:
    """One log from its first byte to where it is now."""

    def __init__(self, classifier: Classifier, prefilter: Prefilter, pace: Pace) -> None:
        self._classifier = classifier
        self._prefilter = prefilter
        self._pace = pace
        self._weaver = Weaver()
        self._unwrapper = Unwrapper()
        self._offset = 0
        self._number = 1
        """Of the next byte and of its line."""
        self._watch = FIRST_LINES
        self._tail = b""
        self._last_read = 0
        """Number of the line read last."""
        self.notes = Notes()

    def pass_over(self, chunk: bytes) -> None:
        """Counts bytes and lines of a log's beginning that is not to be read."""
        self._number += chunk.count(b"\n")
        self._offset += len(chunk)

    def stretch(self, data: bytes, *, whole: bool = False) -> tuple[list[Finding], int]:
        """Reads the lines that a pattern names, and those that follow while something is open.

        Returns the findings, and how many bytes were passed: all of a `whole` one; else the last
        line is the one with which the budget was spent.
        """
        found: list[Finding] = []
        ends = sorted(set(self._prefilter.ends(data)))
        position, counted, hit = 0, 0, 0
        while position < len(data):
            if not self._watch and self._weaver.idle:
                while hit < len(ends) and ends[hit] <= position:
                    hit += 1
                if hit == len(ends):
                    position = len(data)
                    break
                position = max(position, data.rfind(b"\n", 0, max(ends[hit] - 1, 0)) + 1)
                self._number += data.count(b"\n", counted, position)
                self._pace.spend(read=0, passed=position - counted)
                counted = position
                if self._last_read < self._number - 1:
                    self._recall(data, position)
                self._watch = 1
            stop = data.find(b"\n", position) + 1 or len(data)
            self._pace.spend(read=1 + (stop - position) // LONG_BYTES, passed=stop - counted)
            found += self._line(data[position:stop], self._offset + position, self._number)
            self._last_read = self._number
            self._number += 1
            position = counted = stop
            if not whole and self._pace.thrifty() and not self._weaver.deep:
                break
        self._number += data.count(b"\n", counted, position)
        self._pace.spend(read=0, passed=position - counted)
        self._offset += position
        self._tail = (self._tail + data[max(0, position - TAIL_BYTES) : position])[-TAIL_BYTES:]
        return found, position

    def skip(self, data: bytes, start: int, stop: int) -> list[Finding]:
        """Passes over whole lines unread."""
        if start >= stop:
            return []
        found = self.finish()
        self._number += data.count(b"\n", start, stop)
        self._offset += stop - start
        self._pace.spend(read=0, passed=stop - start)
        self._tail = data[max(start, stop - TAIL_BYTES) : stop]
        return found

    @property
    def deep(self) -> bool:
        """Whether a block is open that has to be read to its end."""
        return self._weaver.deep

    def finish(self) -> list[Finding]:
        """Ends all that is open: nothing more belongs to it."""
        found = self._flush()
        return found + [self._note(reading) for reading in self._weaver.finish()]

    def peek(self, rest: bytes) -> list[Finding]:
        """What would be found if nothing came behind `rest`; changes nothing, as more may come."""
        if self._weaver.idle and not self._watch:
            return []
        twin = copy.copy(self)
        twin._weaver, twin._unwrapper = copy.deepcopy((self._weaver, self._unwrapper))
        twin.notes, twin._pace = Notes(), copy.copy(self._pace)
        found = twin.stretch(rest, whole=True)[0] + twin._flush()
        return found + [twin._note(reading) for reading in twin._weaver.settle()]

    def _flush(self) -> list[Finding]:
        return [item for line in self._unwrapper.flush() for item in self._read(line)]

    def _recall(self, data: bytes, position: int) -> None:
        """Gives the weaver the two lines above the one that woke it."""
        above = (
            (self._tail[-2048:] + data[:position])[-2048:]
            if position < 2048
            else data[position - 2048 : position]
        )
        lines = above.split(b"\n")[-3:-1]
        for index, raw in enumerate(lines, start=self._number - len(lines)):
            if index > self._last_read:
                text = clean(raw)[-1]
                self._weaver.recall(Line(index, 0, text, read_prefix(text)))

    def _line(self, raw: bytes, offset: int, number: int) -> list[Finding]:
        found: list[Finding] = []
        self._watch = max(0, self._watch - 1 - len(raw) // LONG_BYTES)
        first: Prefix | None = None
        for text in clean(raw):
            prefix = read_prefix(text)
            if first is None:
                first = prefix
            elif first.key and not prefix.key:
                prefix = prefix._replace(key=first.key, rank=first.rank)
            for line in self._unwrapper.feed(Line(number, offset, text, prefix)):
                found += self._read(line)
        if not self._watch and self._weaver.idle:
            found += self._flush()
        return found

    def _read(self, line: Line) -> list[Finding]:
        """Takes one whole line, which may hold a stack with escaped line ends."""
        if "\\n" not in line.text and STACK_KEY not in line.text:
            return self._take(line)
        texts = unfold(line.text)
        if len(texts) == 1 and texts[0] is line.text:
            return self._take(line)
        self._pace.spend(read=len(texts), passed=0)
        found: list[Finding] = []
        for text in texts:
            prefix = read_prefix(text)
            if line.prefix.key and not prefix.key:
                prefix = prefix._replace(key=line.prefix.key, rank=line.prefix.rank)
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
            self.notes.say(Spoken(line.number, line.prefix.key, line.prefix.level, text))
        return found

    def _note(self, reading: Reading) -> Finding:
        sighting = self._classifier.of_block(reading)
        self._keep(sighting)
        return sighting.finding

    def _keep(self, sighting: Sighting) -> None:
        self._watch = max(self._watch, WATCH_LINES)
        self._pace.spend(read=FINDING_LINES, passed=0)
        self.notes.keep(sighting)

    def tail(self) -> Iterable[Spoken]:
        """The last lines of the log, read or not."""
        raw = self._tail.split(b"\n")
        if raw and not raw[-1]:
            raw.pop()
        first = self._number - len(raw)
        for index, line in enumerate(raw[-200:], start=max(first, first + len(raw) - 200)):
            for text in clean(line)[-1:]:
                prefix = read_prefix(text)
                yield Spoken(index, prefix.key, prefix.level, text[prefix.width :])

    @property
    def num_lines(self) -> int:
        """How many lines were passed."""
        return self._number - 1
