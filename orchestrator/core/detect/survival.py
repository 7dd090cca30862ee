"""Did it end? Whether a finding ended the work, or the text shows that the job went on.

Owns the reading of what stands behind a finding. Which of those that ended it is meant is decided
in `ranking`.
"""

from collections.abc import Sequence

from orchestrator.core.detect.afterwards import Life, Sign, is_handled
from orchestrator.core.detect.sighting import Sighting
from orchestrator.core.findings import Finding, Role

LAST_LINES = 20
NEAR_LINES = 3
HEALTHY_LINES = 3
"""Lines of progress behind a helper's death that show that the job does without it."""
_HARMLESS_CONTEXTS = frozenset({"ignored", "logging", "future", "dump", "text"})
_DEVICE_WORK = frozenset(
    [
        "fx_trace_race",
        "fx_trace_nested",
        "dynamo_compile_error",
        "triton_error",
        "cuda_oom",
        "cuda_device_assert",
        "cuda_illegal_access",
        "gpu_fault",
        "cublas_cudnn_error",
    ]
)
_NEEDED_THREADS = (
    "worker",
    "train",
    "drafter",
    "rank",
    "gpu",
    "cuda",
    "step",
    "main",
    "model",
    "replica",
    "target",
    "pipeline",
)


def may_end(item: Sighting) -> bool:
    """Whether such a finding can end anything: not where it was only noted down."""
    if item.context in _HARMLESS_CONTEXTS or item.finding.role is Role.DIAGNOSTIC:
        return False
    return item.level not in ("W", "I", "D") or item.finding.ends == "process"


class Survival:
    """What a log's ordinary lines say of the time behind its findings."""

    def __init__(self, life: Life, sightings: Sequence[Sighting]) -> None:
        self._life = life
        self._last_end = max((item.finding.line for item in sightings if may_end(item)), default=0)

    def of(self, item: Sighting) -> bool:
        """Whether the text shows that the job went on in spite of the finding."""
        last = item.finding.last_line
        alive = self._life.alive(last, item.key)
        done = self._life.count(Sign.DONE, last) > 0
        near = self._life.near(last, NEAR_LINES)
        if Sign.HANDLED in near or Sign.RESTART in near:
            return alive > 0 or not self._dies_later(item)
        if item.finding.signature == "interrupted":
            # Saving a last checkpoint is no end of the work; a signal behind that end is none either.
            ended = self._life.count(Sign.DONE, 0) > self._life.count(Sign.DONE, item.finding.line)
            return ended or self._life.count(Sign.PROGRESS, last) > 1
        if item.level and any(is_handled(text) for text in item.before[-1:]):
            return True
        if item.quoted and alive:
            return True
        if "[rank" in item.key and item.block and not item.level:
            return done or self._life.restarted(last)
        if item.context in ("thread", "child"):
            if _needed(item.finding):
                return self._life.restarted(last)
            over = Sign.DONE in self._life.between(
                item.finding.line - LAST_LINES, item.finding.line
            )
            return done or over or alive >= HEALTHY_LINES
        return alive > 0

    def _dies_later(self, item: Sighting) -> bool:
        return self._last_end > item.finding.last_line


def _needed(finding: Finding) -> bool:
    """Whether the work of a thread that died was the job's own, not a helper's."""
    if finding.signature in _DEVICE_WORK:
        return True
    frame = finding.in_app_frame
    names = f"{finding.thread or ''} {frame.function if frame else ''}".lower()
    return any(word in names for word in _NEEDED_THREADS)
