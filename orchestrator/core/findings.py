"""What detection concluded: findings, and the one verdict of an attempt, as frozen values.

Owns the shape that `orch diagnose --json`, the store and the API keep; it concludes nothing itself.
Line numbers count from 1, offsets are bytes from the start of the log.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from orchestrator.core.model import Severity

SCHEMA = 1
MAX_EVIDENCE_LINES = 10


class Role(StrEnum):
    """What a finding has to do with the end of the attempt."""

    ROOT = "root"
    CASCADE = "cascade"
    CONFIRMATION = "confirmation"
    TEARDOWN = "teardown"
    DIAGNOSTIC = "diagnostic"


class Outcome(StrEnum):
    """The one word for how an attempt ended."""

    CRASHED = "crashed"
    OK = "ok"
    KILLED = "killed"
    HUNG = "hung"
    STOPPED = "stopped"


class Certainty(StrEnum):
    """How firmly the evidence carries the verdict."""

    CERTAIN = "certain"
    LIKELY = "likely"
    GUESS = "guess"


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One place in a stack; `function` is empty where the program named none."""

    file: str
    line: int
    function: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExceptionText:
    """An exception as printed: its dotted type and the first line of its message."""

    type: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that the log, the kernel or the exit record says went wrong."""

    signature: str
    role: Role
    line: int
    """1-based line of the evidence; 0 where it is not from the log."""
    text: str
    """The line that says it, cleaned of escapes and prefixes."""
    rank: int | None = None
    thread: str | None = None
    traceback: str = ""
    """The whole block, cleaned of escapes; a chain with all its parts."""
    exception: ExceptionText | None = None
    root_exception: ExceptionText | None = None
    frame: Frame | None = None
    in_app_frame: Frame | None = None
    severity: Severity = Severity.CRITICAL
    transient: bool | None = None
    family: str | None = None
    fingerprint: str = ""
    title: str = ""
    offset: int = 0
    """Byte offset of the line in the log."""
    last_line: int = 0
    """1-based last line of its block."""
    ends: str | None = None
    """What it ended for sure: `process`, `thread` or `rank`; None where that is not known."""
    truncated: bool = False
    """The block's beginning or end is not in the log."""

    def to_json(self) -> dict[str, Any]:
        """The finding in JSON's types."""
        return _plain(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Finding":
        """The finding that `to_json` wrote, likewise."""
        return cls(**_typed(known_of(cls, document)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How an attempt ended and why: what `orch diagnose --json` prints, with its evidence."""

    verdict: Outcome
    crash: bool
    signature: str | None = None
    title: str = ""
    severity: Severity = Severity.INFO
    transient: bool | None = None
    family: str | None = None
    fingerprint: str | None = None
    exception: ExceptionText | None = None
    root_exception: ExceptionText | None = None
    frame: Frame | None = None
    in_app_frame: Frame | None = None
    rank: int | None = None
    thread: str | None = None
    line: int = 0
    truncated: bool = False
    cause: str = ""
    next_steps: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    traceback: str = ""
    evidence: tuple[str, ...] = ()
    """At most ten lines, each with its number in front."""
    certainty: Certainty = Certainty.CERTAIN
    certainty_reason: str = ""
    ends: str | None = None
    """`process`, `thread` or `rank`: what was lost."""
    recorded: bool = True
    """Whether anything says how the attempt ended; where nothing does its run is lost."""

    def to_json(self) -> dict[str, Any]:
        """The verdict in JSON's types."""
        return _plain(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Verdict":
        """The verdict that `to_json` wrote; KeyError where a key is missing.

        What a newer orch of the same fleet tells besides is left out.
        """
        typed = _typed(known_of(cls, document))
        typed["verdict"] = Outcome(document["verdict"])
        typed["certainty"] = Certainty(document["certainty"])
        typed["findings"] = tuple(Finding.from_json(item) for item in document["findings"])
        for name in ("next_steps", "references", "evidence"):
            typed[name] = tuple(document[name])
        return cls(**typed)


def known_of(noun: type, document: Mapping[str, Any]) -> dict[str, Any]:
    """What a stored document says of the fields that a noun has in this version."""
    known = {field.name for field in fields(noun)}
    return {key: value for key, value in document.items() if key in known}


def verdict_json(verdict: Verdict, file: str) -> dict[str, Any]:
    """The document of `orch diagnose FILE --json`, its keys in the order of the contract."""
    whole = verdict.to_json()
    keys = (
        "verdict crash signature title severity transient family fingerprint exception"
        " root_exception frame in_app_frame rank thread line truncated cause next_steps references"
    )
    document: dict[str, Any] = {"schema": SCHEMA, "file": file}
    document.update((key, whole[key]) for key in keys.split())
    document["findings"] = [
        {key: item[key] for key in ("signature", "role", "line", "rank", "text")}
        for item in whole["findings"]
    ]
    document.update((key, whole[key]) for key in ("certainty", "certainty_reason", "evidence"))
    return document


def _plain(value: Finding | Verdict) -> dict[str, Any]:
    return {field.name: _json(getattr(value, field.name)) for field in fields(value)}


def _json(value: object) -> Any:
    if isinstance(value, Frame | ExceptionText):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Finding):
        return value.to_json()
    if isinstance(value, tuple):
        return [_json(item) for item in value]
    return str(value) if isinstance(value, StrEnum) else value


def _typed(document: Mapping[str, Any]) -> dict[str, Any]:
    typed = dict(document)
    for name in ("frame", "in_app_frame"):
        typed[name] = Frame(**known_of(Frame, document[name])) if document[name] else None
    for name in ("exception", "root_exception"):
        stored = document[name]
        typed[name] = ExceptionText(**known_of(ExceptionText, stored)) if stored else None
    typed["severity"] = Severity(document["severity"])
    if "role" in document:
        typed["role"] = Role(document["role"])
    return typed
