"""Whether an attempt that failed is followed by another, and when.

Only what the job's policy names is started again: signatures, groups of them, or `lost`. Must not:
look at what a person said, lifecycle.py does first.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from orchestrator.core.contract import NO_RESTART_EXIT_CODE
from orchestrator.core.findings import Verdict
from orchestrator.core.inventory.failures import LOST
from orchestrator.core.model import RESTART, RestartPolicy, Run, RunState

GROUPS = {
    "infra": frozenset(
        {"nccl_timeout", "nccl_error", "rendezvous_or_port", "hub_or_dataset_error"}
    ),
    "interruption": frozenset({"interrupted"}),
}
CUDA_ECC = "cuda_ecc"
_ECC_XIDS = frozenset({48, 63, 64, 94, 95})
_XID = re.compile(r"\bXid\b\s{0,3}(?:\([^)\n]{0,60}\))?\s{0,3}:?\s{0,3}(\d{1,3})\b")
_ECC = re.compile(r"\bECC\b")

LONGEST_BACKOFF_S = 1800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """The next attempt starts at unix time `at`."""

    at: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveUp:
    """There is no next attempt."""

    reason: str


def judge(
    policy: RestartPolicy,
    verdict: Verdict,
    *,
    exit_code: int | None,
    starts: Iterable[float],
    now: float,
) -> Restart | GiveUp:
    """Restart or give up; `starts` are the unix times at which the run's attempts started."""
    if not policy.on:
        return GiveUp(reason="the job has no restart policy")
    if exit_code == NO_RESTART_EXIT_CODE:
        return GiveUp(reason=f"exit code {NO_RESTART_EXIT_CODE} asks for no restart")
    why = _named(policy, verdict)
    if why is None:
        name = verdict.signature or (
            "an end without a known signature" if verdict.recorded else LOST
        )
        return GiveUp(reason=f"{name} is not among the job's restart.on")
    recent = sum(1 for start in starts if start > now - policy.within_s)
    if recent >= policy.max_attempts:
        return GiveUp(
            reason=f"{recent} attempts within {_hours(policy.within_s)}; that is all there may be"
        )
    longest = max(policy.backoff_s, LONGEST_BACKOFF_S)
    delay = min(longest, policy.backoff_s * 2 ** min(max(recent - 1, 0), 30))
    return Restart(
        at=now + delay,
        reason=f"{why}: attempt {recent + 1} of {policy.max_attempts} starts in {delay:g} s",
    )


def waits_by_another(run: Run, policy: RestartPolicy) -> bool:
    """Whether a run waits for its next attempt as another policy said, or one that nobody kept."""
    judged_by = ((run.verdict or {}).get(RESTART) or {}).get("by")
    return run.state is RunState.BACKOFF and judged_by != policy.words


def _named(policy: RestartPolicy, verdict: Verdict) -> str | None:
    signature = verdict.signature
    for word in policy.on:
        if word == LOST and not verdict.recorded:
            return LOST
        if signature is None:
            continue
        if word == signature:
            return signature
        if signature in GROUPS.get(word, ()):
            return f"{signature} ({word})"
        if word == CUDA_ECC and signature == "gpu_fault" and _is_ecc(verdict):
            return f"{signature} ({word})"
    return None


def _is_ecc(verdict: Verdict) -> bool:
    faults = (one for one in verdict.findings if one.signature == "gpu_fault")
    text = "\n".join((*verdict.evidence, *(one.text for one in faults)))
    if _ECC.search(text):
        return True
    return any(int(number) in _ECC_XIDS for number in _XID.findall(text))


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:g} h" if seconds >= 3600 else f"{seconds / 60:g} min"
