"""The document: a verdict with its evidence, roles and place, once the root is known.

Owns what is told of the finding that is meant; weighs nothing.
"""

from collections.abc import Sequence
from dataclasses import replace

from orchestrator.core.detect.classify import Classifier
from orchestrator.core.detect.race import Scene
from orchestrator.core.detect.sighting import Sighting
from orchestrator.core.findings import (
    MAX_EVIDENCE_LINES,
    Certainty,
    Finding,
    Frame,
    Outcome,
    Role,
    Verdict,
)

MAX_FINDINGS = 200
_GPU = frozenset(
    ["cuda_device_assert", "cuda_illegal_access", "gpu_fault", "cublas_cudnn_error", "cuda_oom"]
)
"""Faults of one card: a line names one, and the exception by which it was noticed may name another."""


class Report:
    """Writes the verdicts of one case."""

    def __init__(self, sightings: Sequence[Sighting], classifier: Classifier, scene: Scene) -> None:
        self._sightings = sightings
        self._classifier = classifier
        self._scene = scene

    def crash(self, root: Sighting, fatal: Sequence[Sighting], certainty: Certainty) -> Verdict:
        """The verdict that the root ended it, with all others that did in their roles."""
        finding = _deepest(_told(root, fatal), fatal)
        known = self._classifier.named(finding.signature, finding.title)
        return Verdict(
            verdict=_outcome(finding),
            crash=True,
            signature=finding.signature,
            title=finding.title,
            severity=finding.severity,
            transient=finding.transient,
            family=finding.family,
            fingerprint=finding.fingerprint or None,
            exception=finding.exception,
            root_exception=finding.root_exception,
            frame=finding.frame,
            in_app_frame=finding.in_app_frame,
            rank=finding.rank,
            thread=finding.thread,
            line=finding.line,
            truncated=finding.truncated,
            cause=f"{known.cause} {self._scene.sentences(finding)}".rstrip(),
            next_steps=known.next_steps,
            references=known.references,
            findings=self._findings(root, fatal),
            traceback=finding.traceback,
            evidence=(*_evidence(root, finding, fatal), *self._scene.evidence(finding))[
                :MAX_EVIDENCE_LINES
            ],
            certainty=Certainty.LIKELY if finding.truncated else certainty,
            certainty_reason="the log was cut" if finding.truncated else "",
            ends=finding.ends or "process",
        )

    def fine(self, certainty: Certainty, reason: str) -> Verdict:
        """The verdict that nothing ended it, whatever was seen."""
        findings = tuple(replace(item.finding, role=Role.DIAGNOSTIC) for item in self._shown())
        return Verdict(
            verdict=Outcome.OK,
            crash=False,
            title="No crash",
            findings=findings,
            certainty=certainty,
            certainty_reason=reason,
        )

    def _findings(self, root: Sighting, fatal: Sequence[Sighting]) -> tuple[Finding, ...]:
        return tuple(replace(item.finding, role=_role(item, root, fatal)) for item in self._shown())

    def _shown(self) -> Sequence[Sighting]:
        """The first findings, and behind them the first of every signature not among those."""
        shown = list(self._sightings[:MAX_FINDINGS])
        known = {item.finding.signature for item in shown}
        for item in self._sightings[MAX_FINDINGS:]:
            if item.finding.signature not in known:
                known.add(item.finding.signature)
                shown.append(item)
        return shown


def _told(root: Sighting, fatal: Sequence[Sighting]) -> Finding:
    """The root with what a stack of the same signature says where it has none itself."""
    finding = root.finding
    if root.exit_code is not None and finding.signature != "elastic_child_failed":
        if finding.exception is None or "ChildFailedError" in finding.exception.type:
            return replace(finding, exception=None, frame=None, in_app_frame=None)
        return finding
    if finding.exception is not None or finding.frame is not None:
        return finding
    for other in fatal:
        same = other.finding
        if _reports_worker(finding, other) or _notices_fault(finding, other):
            return replace(
                finding,
                exception=same.exception,
                root_exception=same.root_exception,
                frame=same.frame,
                in_app_frame=same.in_app_frame,
                traceback=same.traceback,
            )
        reported = other.exit_code is not None and finding.signature != "elastic_child_failed"
        if same.signature == finding.signature and same.exception and not reported:
            rank = finding.rank if same.rank is None else same.rank
            return replace(
                same, line=finding.line, text=finding.text, offset=finding.offset, rank=rank
            )
    return finding


def _outcome(finding: Finding) -> Outcome:
    if finding.signature == "interrupted":
        return Outcome.STOPPED
    if finding.signature == "nccl_timeout":
        return Outcome.HUNG
    if finding.signature == "host_oom" and finding.exception is None:
        return Outcome.KILLED
    return Outcome.CRASHED


def _deepest(finding: Finding, fatal: Sequence[Sighting]) -> Finding:
    """The finding with the deepest place of those whose lines are woven into its own.

    Ranks that print one traceback at a time, with nothing to tell them apart, lose frames to each
    other. Each prints them in the same order, so that the one first seen last is the innermost.
    """
    twins = [item for item in fatal if _woven(finding, item.finding)]
    if len(twins) < 2:
        return finding
    first: dict[Frame, int] = {}
    for frame, number in (pair for item in twins for pair in item.frames_at.items()):
        first[frame] = min(number, first.get(frame, number))
    if not first:
        return finding
    frame = max(first, key=lambda one: first[one])
    ends = (item.finding.in_app_frame for item in twins if item.finding.frame == frame)
    return replace(finding, frame=frame, in_app_frame=next(ends, finding.in_app_frame))


def _woven(one: Finding, other: Finding) -> bool:
    return (
        one.exception is not None
        and (one.exception, one.rank, one.thread) == (other.exception, None, None)
        and one.line <= other.last_line
        and other.line <= one.last_line
    )


def _reports_worker(finding: Finding, other: Sighting) -> bool:
    """Whether the other is how the main process noticed that this DataLoader worker died."""
    exception = other.finding.exception
    return (
        exception is not None
        and exception.message.startswith("DataLoader worker (pid")
        and finding.signature in ("shm_exhausted", "segfault")
        and other.finding.line > finding.line
    )


def _notices_fault(finding: Finding, other: Sighting) -> bool:
    """Whether the other is the exception by which this rank noticed that a kernel had failed."""
    return (
        other.finding.exception is not None
        and finding.signature in _GPU
        and other.finding.signature in _GPU
        and other.finding.line > finding.line
        and finding.rank in (None, other.finding.rank)
    )


def _role(item: Sighting, root: Sighting, fatal: Sequence[Sighting]) -> Role:
    if item is root:
        return Role.ROOT
    if item not in fatal:
        return Role.TEARDOWN if item.context == "ignored" else Role.DIAGNOSTIC
    if item.finding.signature == root.finding.signature:
        return Role.CONFIRMATION
    return Role.CASCADE if item.finding.line >= root.finding.line else item.finding.role


def _evidence(root: Sighting, finding: Finding, fatal: Sequence[Sighting]) -> tuple[str, ...]:
    said_at, place_at = root.said_at, root.place_at
    if finding is not root.finding:
        said_at = place_at = 0
    lines = [_numbered(said_at or finding.line, finding.text)]
    if (frame := finding.in_app_frame) is not None:
        place = f"{frame.file}:{frame.line} in {frame.function}"
        lines.append(_numbered(place_at or finding.line, place))
    for item in fatal:
        entry = _numbered(item.said_at or item.finding.line, item.finding.text)
        if entry not in lines:
            lines.append(entry)
    return tuple(line[:300] for line in lines[:MAX_EVIDENCE_LINES])


def _numbered(line: int, text: str) -> str:
    """A text with the number of its line in the log; without one where it is not from there."""
    return f"{line}: {text}" if line else text
