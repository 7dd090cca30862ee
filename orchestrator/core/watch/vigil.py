"""One attempt against the clock: silence, hangs, lost pace, numbers that are not as expected.

Owns what is concluded from what was seen when. A hang needs two witnesses: silence, which is
seen here, and what the run's processes and GPUs did meanwhile, which the caller looks up.
Times are those of the daemon's clock.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.core.detect.fingerprint import fingerprint
from orchestrator.core.detect.signatures.model import Signature
from orchestrator.core.findings import Finding, Role
from orchestrator.core.model import Severity, WatchPolicy
from orchestrator.core.watch import advice
from orchestrator.core.watch.activity import Activity, said
from orchestrator.core.watch.expectation import IN_A_ROW, Expectation
from orchestrator.core.watch.pace import TRAINING, Pace
from orchestrator.core.watch.rule_watch import RuleWatches
from orchestrator.core.watch.slowdown import Slower

BLIND_AFTER_S = 300.0
SILENT_LEAST_S = 300.0
SILENT_STEPS = 30
"""Without `output_within`, silence is suspicious after so many usual steps."""
RECENT_STEP_S = 60.0
BEGINNING_S = 600.0
SLOW_PHASES = frozenset({"compile", "checkpoint", "eval"})
SLOW_PHASE_FACTOR = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """The first witness: what did not come, and for how long."""

    text: str
    at_start: bool = False
    """Nothing has come at all yet."""


class Vigil:
    """Told of everything that is seen of one attempt; asked now and then."""

    def __init__(
        self,
        policy: WatchPolicy,
        started_at: float,
        now: float,
        *,
        has_output: bool = False,
        has_steps: bool = False,
        rules: tuple[Signature, ...] = (),
    ) -> None:
        """`now` is when the watch begins, which may be long after the start."""
        self.phase: str | None = None
        self._policy = policy
        self._started_at = started_at
        self._heard_at = now
        self._has_output = has_output
        self._has_metrics = self._has_steps = has_steps
        self._stepped_at = float("-inf")
        self._unseen_since: float | None = None
        self._pace = Pace()
        self._expectations = [Expectation(text) for text in policy.expect]
        self._rules = RuleWatches(rules, max(started_at, now), seen_before=has_output)
        self._bad_losses = 0
        self._slower = Slower()
        self._told: set[str] = set()
        self._found: list[Finding] = []

    # --- what is seen ----------------------------------------------------------------------------

    def output(self, at: float) -> None:
        """The program has written something."""
        self._heard_at = max(self._heard_at, at)
        self._has_output = True
        self._told.discard(advice.HANG)

    def text(self, chunk: bytes, at: float) -> None:
        """The bytes that it has written, for what the inventory's rules expect of them."""
        self._rules.text(chunk, at)

    def lost(self, num_bytes: int) -> Finding:
        """A full disk over there lost so much of the output."""
        text = f"{num_bytes} bytes of the output are lost so far: the disk there was full"
        return self._made(advice.OUTPUT_LOST, text, same=advice.OUTPUT_LOST)

    def numbers(self, values: Mapping[str, Any], at: float, *, told_at: float | None) -> None:
        """New metrics; `told_at` is the program's own time of them, where it gave one."""
        self._heard_at = max(self._heard_at, at)
        self._has_metrics = True
        self._told.discard(advice.HANG)
        phase = values.get("phase")
        self.phase = phase if isinstance(phase, str) else self.phase
        step = values.get("step")
        if isinstance(step, int | float) and not isinstance(step, bool) and math.isfinite(step):
            self._has_steps = True
            self._stepped_at = at
            took = self._pace.step(int(step), told_at if told_at is not None else at, self.phase)
            if took is not None:
                self._slower.step(*took, values.get("tokens_per_s"), values.get("memory_bytes"))
        self._weigh_loss(values.get("loss"), step)
        for one in self._expectations:
            if one.feed(values):
                what = values.get(one.what.name)
                self._tell(
                    advice.EXPECTATION_FAILED,
                    f"{one.text}: {one.what.name} is {what} at step {values.get('step')}",
                    key=one.text,
                    same=one.text,
                )

    def link(self, *, seen: bool, at: float) -> None:
        """Whether the target can be seen; what was not seen is no silence."""
        if seen and self._unseen_since is not None:
            self._unseen_since = None
            self._heard_at = max(self._heard_at, at)
            self._told.discard(advice.BLIND)
            self._rules.resume(at)
        elif not seen and self._unseen_since is None:
            self._unseen_since = at

    # --- what follows ----------------------------------------------------------------------------

    def look(self, now: float) -> list[Finding]:
        """What needs no second witness, each once."""
        if self._unseen_since is not None and now - self._unseen_since >= BLIND_AFTER_S:
            since = _duration(now - self._unseen_since)
            self._tell(advice.BLIND, f"not seen for {since}; the run is as it was then")
        self._tell_pace()
        if self._unseen_since is None:
            for rule, text in self._rules.wrong(now):
                self._tell(advice.EXPECTATION_FAILED, text, key=rule.id, same=rule.id)
        found, self._found = self._found, []
        return found

    def gets_on(self, now: float) -> bool:
        """Whether the run is at its steps: only then does one GPU that rests hold others up.

        While one rank loads, compiles or saves, all others wait for it, and rightly so. Of a
        program that tells no steps this is known by its output, once it is past its beginning.
        """
        if self.phase not in TRAINING:
            return False
        if self._has_steps:
            return now - self._stepped_at < RECENT_STEP_S
        return now - self._started_at > BEGINNING_S and now - self._heard_at < RECENT_STEP_S

    def _tell_pace(self) -> None:
        """Slower for good; with more memory as well, compiled code was given up."""
        fall = self._slower.fall
        if fall is None:
            return
        text = f"{fall.unit} takes {fall.factor:.1f} times as long as before, and stays so"
        if fall.memory is None:
            self._tell(advice.THROUGHPUT_DROP, text)
            return
        text += f", with {fall.memory:.1f} times the memory: compiled code may run eagerly now"
        self._tell("silent_eager", text, same="pace")

    def silence(self, now: float) -> Silence | None:
        """The first witness of a hang, if there is one that was not told yet."""
        if self._unseen_since is not None or advice.HANG in self._told:
            return None
        policy, running_s = self._policy, now - self._started_at
        late = policy.start_within_s is not None and running_s >= policy.start_within_s
        if late and "start" not in self._told:
            if (self._has_metrics or policy.metrics) and not self._has_steps:
                return Silence(
                    text=f"no step within {_duration(running_s)} of the start", at_start=True
                )
            if not self._has_output:
                return Silence(
                    text=f"no output within {_duration(running_s)} of the start", at_start=True
                )
        within_s, silent_s = self._within_s(), now - self._heard_at
        if within_s is None or silent_s < within_s:
            return None
        phase = f" in phase {self.phase}" if self.phase else ""
        return Silence(text=f"silent for {_duration(silent_s)}{phase}")

    def judge(self, silence: Silence, activity: Activity) -> Finding | None:
        """The finding where both witnesses agree; what is busy or compiling is none."""
        hangs = not activity.compiling and (
            activity.idle
            or activity.waits_on_gpus
            or activity.stands_still
            or activity.lacks is not None
        )
        if silence.at_start:
            self._told.add("start")
        if not hangs and not silence.at_start:
            return None
        text = f"{silence.text}; {said(activity)}"
        if not hangs:
            return self._made(
                advice.EXPECTATION_FAILED, text, same="start_within", severity=Severity.WARNING
            )
        self._told.add(advice.HANG)
        stacks = "\n".join(activity.later_stacks or activity.stacks)
        return self._made(advice.HANG, text, same=_innermost(stacks), traceback=stacks)

    def _within_s(self) -> float | None:
        policy = self._policy
        factor = SLOW_PHASE_FACTOR if self.phase in SLOW_PHASES else 1.0
        if policy.output_within_s is not None:
            return policy.output_within_s * factor
        usual_s = self._pace.usual_s
        return None if usual_s is None else max(SILENT_LEAST_S, SILENT_STEPS * usual_s) * factor

    def _weigh_loss(self, loss: object, step: object) -> None:
        if isinstance(loss, bool) or not isinstance(loss, int | float):
            return
        self._bad_losses = 0 if math.isfinite(loss) else self._bad_losses + 1
        if self._bad_losses == IN_A_ROW:
            text = f"the loss is {loss} at step {step}, the {IN_A_ROW}rd time in a row"
            self._tell(advice.NAN_LOSS, text, same="nan")

    def _tell(self, signature: str, text: str, *, key: str = "", same: str = "") -> None:
        name = f"{signature} {key}" if key else signature
        if name not in self._told:
            self._told.add(name)
            self._found.append(self._made(signature, text, same=same or signature))

    def _made(
        self,
        ident: str,
        text: str,
        *,
        same: str,
        traceback: str = "",
        severity: Severity | None = None,
    ) -> Finding:
        known = advice.of(ident)
        return Finding(
            signature=ident,
            role=Role.ROOT,
            line=0,
            text=text,
            traceback=traceback,
            severity=severity or known.severity,
            transient=known.transient,
            family=ident,
            title=known.title,
            fingerprint=fingerprint(
                signature=ident, exception=None, frame=None, in_app_frame=None, text=same
            ),
        )


def _innermost(stacks: str) -> str:
    """The first frame of a dump, which is where the main thread stands."""
    frames = [line.strip() for line in stacks.splitlines() if line.startswith("    ")]
    return frames[0] if frames else "hang"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
