"""What a program tells of its progress: JSON lines of the run contract, or patterns in its log.

Owns the reading of metrics.jsonl as it grows (docs/run-contract.md) and of the inventory's
regular expressions. A line that cannot be read is counted, and never ends anything.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.core.patterns import read_pattern

MAX_LINE_BYTES = 1024 * 1024
TORN_CHARS = 4096
MAX_INTEGER = 2**63 - 1

Value = float | int | str | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsLine:
    """One line; what it does not say is None."""

    t: float | None
    """Unix seconds, of the target's clock."""
    step: int | None
    loss: float | None
    """NaN and the infinities included: a loss that went wrong is worth knowing."""
    phase: str | None
    """`compile`, `train`, `checkpoint`, `eval`, or the program's own word."""
    values: Mapping[str, Value]
    """Every scalar of the line, the four above included."""


class MetricsReader:
    """Takes the bytes of metrics.jsonl in order, cut anywhere, and gives its lines."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._skipping = False
        self.torn = 0
        """Lines that are no JSON: written by halves, or by two at once."""
        self.unknown = 0
        """JSON, but not an object with a scalar in it."""

    def feed(self, chunk: bytes, most: int | None = None) -> list[MetricsLine]:
        """Lines that are complete now; of more than `most` only the newest are looked at."""
        *whole, rest = self._newest(bytes(self._rest) + chunk, most)
        self._rest = bytearray(rest)
        found = []
        for raw in whole:
            if self._skipping:
                # The end of a line that was too long, and is counted already.
                self._skipping = False
                continue
            line = self._line(raw)
            if line is not None:
                found.append(line)
        if len(self._rest) > MAX_LINE_BYTES:
            self.torn += not self._skipping
            self._skipping = True
            self._rest.clear()
        return found

    def _newest(self, text: bytes, most: int | None) -> list[bytes]:
        """The last `most` whole lines and what follows them."""
        if most is None:
            return text.split(b"\n")
        parts = text.rsplit(b"\n", most + 1)
        if len(parts) <= most + 1:
            return parts
        self._skipping = False  # the end of a line that was too long is among those before
        return parts[1:]

    def _line(self, raw: bytes) -> MetricsLine | None:
        if not raw.strip():
            return None
        try:
            record = json.loads(raw)
        except (ValueError, RecursionError):
            self.torn += 1
            return None
        values = _scalars(_with_loss(record)) if isinstance(record, dict) else {}
        if not values:
            self.unknown += 1
            return None
        step, phase = values.get("step"), values.get("phase")
        return MetricsLine(
            t=_number(values.get("t")),
            step=step if isinstance(step, int) and not isinstance(step, bool) else None,
            loss=_number(values.get("loss")),
            phase=phase if isinstance(phase, str) else None,
            values=values,
        )


def _with_loss(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """The contract writes null for a number that is not finite; of a loss in training that counts.

    Others write null where they have nothing to say, so that it says nothing in another phase.
    """
    broken = record.get("phase") == "train" and "loss" in record and record["loss"] is None
    return {**record, "loss": math.nan} if broken else record


def _scalars(record: Mapping[str, Any]) -> dict[str, Value]:
    return {key: _storable(value) for key, value in record.items() if _is_scalar(value)}


def _is_scalar(value: object) -> bool:
    """An integer that no column and no float can hold is none."""
    return isinstance(value, Value) and not (isinstance(value, int) and abs(value) > MAX_INTEGER)


def _storable(value: Value) -> Value:
    """Half a surrogate pair is legal JSON, and no text that could be kept."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def _number(value: Value | None) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


class PatternMetrics:
    """Numbers that regular expressions with a group `value` find in lines of a log."""

    def __init__(self, patterns: Mapping[str, str]) -> None:
        self._patterns = {name: read_pattern(text) for name, text in patterns.items()}

    def read(self, line: str) -> dict[str, float]:
        """Newest value of each metric in one clean line; what is no number is left out."""
        found = {}
        for name, pattern in self._patterns.items():
            for match in pattern.finditer(line):
                value = _float(match["value"])
                if value is not None:
                    found[name] = value
        return found


class WholeLines:
    """The lines of a log that comes in pieces, each once it is whole."""

    def __init__(self) -> None:
        self._torn = ""

    def feed(self, fresh: bytes) -> list[str]:
        """Those that end in the next bytes; of an endless one only the newest part is kept."""
        *lines, self._torn = (self._torn + fresh.decode("utf-8", "replace")).split("\n")
        self._torn = self._torn[-TORN_CHARS:]
        return lines


def _float(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return float(text.strip(" ,;:)]}"))
    except ValueError:
        return None
