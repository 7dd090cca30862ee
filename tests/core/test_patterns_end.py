"""No pattern of the package takes for ever: what a program prints is not ours to choose."""

import importlib
import itertools
import pkgutil
import re
import signal
from collections.abc import Iterator
from types import FrameType

import pytest

import orchestrator.core
import orchestrator.probe
from orchestrator.core.detect.signatures import load

CHARS = 400
LONGEST_S = 1.0
"""A pattern whose steps grow with the square of a line's length needs a hundredth of it."""
WORD = re.compile(r"[A-Za-z]{3,}")
UNITS = ("a", "0", " ", "\\ ", "_", "a ", "a0", ".", "/a", 'a"', "a@a:")


class EndlessError(Exception):
    """A pattern was at it for longer than it may."""


def _held(values: object) -> Iterator[re.Pattern[str]]:
    if isinstance(values, re.Pattern) and isinstance(values.pattern, str):
        yield values
    elif isinstance(values, dict):
        for value in values.values():
            yield from _held(value)
    elif isinstance(values, list | tuple | set | frozenset):
        for value in values:
            yield from _held(value)
    else:
        for name in getattr(type(values), "__slots__", ()):
            yield from _held(getattr(values, name, None))


def _patterns() -> dict[str, re.Pattern[str]]:
    """Every pattern that a module of core or probe holds, and those of the signatures."""
    found: dict[str, re.Pattern[str]] = {}
    for package in (orchestrator.core, orchestrator.probe):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for value in vars(importlib.import_module(module.name)).values():
                found |= {one.pattern: one for one in _held(value)}
    return found | {one.pattern: one for one in _held(load())}


def _hostile(pattern: str) -> Iterator[str]:
    """Lines made of what the pattern names itself: a beginning, then one thing over and over, then
    what fits nothing."""
    marks = sorted({mark for mark in pattern if mark in "(:.@-=,;/[<'\"#|"})
    begins = ["", *(f"a{mark}" for mark in marks), *sorted(set(WORD.findall(pattern)))[:8]]
    units = [*UNITS, *(f"a{mark}" for mark in marks)]
    for begin, unit in itertools.product(begins, units):
        yield (begin + unit * CHARS)[:CHARS] + "\x00"


def _give_up(_signal: int, _frame: FrameType | None) -> None:
    raise EndlessError


def test_there_are_patterns() -> None:
    """The search for patterns finds those of every kind of place."""
    assert len(_patterns()) > 150


def test_every_pattern_ends() -> None:
    """Neither an exponential nor a cubic pattern is left (one of an exception's name took three
    seconds for 160 characters)."""
    endless = []
    before = signal.signal(signal.SIGALRM, _give_up)
    try:
        for text, pattern in _patterns().items():
            for line in _hostile(text):
                signal.setitimer(signal.ITIMER_REAL, LONGEST_S)
                try:
                    pattern.match(line)
                except EndlessError:
                    endless.append(f"{text!r} on {line[:40]!r}...")
                    break
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.signal(signal.SIGALRM, before)
    if endless:
        pytest.fail("\n".join(endless))
