"""Findings, the log's end, the exit record and the kernel -> the one verdict.

Owns the questions "did it end?" and "which finding explains the end?". Text is weighed here, never
read anew.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from orchestrator.core.detect.afterwards import Life, Sign, is_handled
from orchestrator.core.detect.classify import Classifier, by_exit_code
from orchestrator.core.detect.fingerprint import fingerprint
from orchestrator.core.detect.sighting import Sighting, Spoken
from orchestrator.core.detect.wording import NO_COMMAND, worded
from orchestrator.core.findings import (
    MAX_EVIDENCE_LINES,
    Certainty,
    Finding,
    Outcome,
    Role,
    Verdict,
)
from orchestrator.core.model import ExitRecord
from orchestrator.core.parse.kernel_log import KernelEvent, KernelEventKind

MAX_FINDINGS = 200
NEAR_LINES = 3
LAST_LINES = 20
HEALTHY_LINES = 3
"""Lines of progress behind a helper's death that show that the job does without it."""
_HARMLESS_CONTEXTS = frozenset({"ignored", "logging", "future", "dump", "text"})
RACE_FAMILY = "compile_thread_race"
COMPILE_LINES = 400
_COMPILES = re.compile(
    r"\b(?:re)?compil(?:e|es|ing|ation)\b|\btracing\b|\bwarm(?:ing|ed)?[ -]?up\b|_dynamo|_inductor"
    r"|cache (?:is )?(?:cold|empty|cleared|miss)|(?:cold|cleared|empty) (?:compile )?cache",
    re.IGNORECASE,
)
_LAST_WORDS = re.compile(
    r"^(?:\S{1,60}: )?(?:fatal |usage )?error: \S"
    r"|^(?:\S{1,60} )?(?:exit(?:ed with)?(?: code| status)|rc|return ?code)\s?[:=]?\s?[1-9]\d{0,2}\W*$",
    re.IGNORECASE,
)
_REFUSAL = re.compile(
    r"^(?:(?:Cannot|Can't|Could ?n[o']t|Could not|Unable to|Failed to|Missing|Invalid|Unknown|Unsupported"
    r"|Unrecognized|Refusing to|Not enough|Expected)\b|No such\b"
    r"|No [\w /.,'-]{1,60}\b(?:found|given|available|left|specified|provided)\b"
    r"|\S{1,80}\.(?:ya?ml|json|toml|cfg|ini|py):\d+: \S)",
    re.IGNORECASE,
)
"""A sentence with which a program gives up, where nothing follows it."""
_FALLEN = re.compile(r"failed \(exitcode: -?\d+\) local_rank: \d+")
"""Torch's launcher, once it has ended the other workers too; it says nothing when it starts new ones."""
_TIERS = {
    "elastic_child_failed": 5,
    "interrupted": 4,
    "nccl_timeout": 2,
    "nccl_error": 2,
}
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
LOUD_LEVELS = ("E", "C")
_ABORTS = frozenset({-6, 134})
_KILLED = frozenset({-9, 137})
_GPU = frozenset(
    ["cuda_device_assert", "cuda_illegal_access", "gpu_fault", "cublas_cudnn_error", "cuda_oom"]
)
"""Faults of one card: a line names one, and the exception by which it was noticed may name another."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """All that is known when an attempt has ended, or a file has been read."""

    sightings: tuple[Sighting, ...]
    said: tuple[Spoken, ...]
    tail: tuple[Spoken, ...]
    lines: int
    exit_record: ExitRecord | None = None
    kernel: tuple[KernelEvent, ...] = ()


def conclude(case: Case, classifier: Classifier) -> Verdict:
    """The verdict on a case; the exit record, where there is one, outweighs the text."""
    court, record = _Court(case, classifier), case.exit_record
    return worded(court.by_text() if record is None else court.by_record(record), record)


class _Court:
    """The weighing of one case."""

    def __init__(self, case: Case, classifier: Classifier) -> None:
        self._case = case
        self._classifier = classifier
        echoes = {item.echo for item in case.sightings if item.echo}
        self._sightings = sorted(
            (
                replace(item, level="") if item.level in echoes and not item.block else item
                for item in case.sightings
            ),
            key=lambda item: item.finding.line,
        )
        taken = [(s.finding.line, s.finding.last_line) for s in self._sightings]
        seen: dict[int, Spoken] = {item.number: item for item in case.said}
        for item in case.tail:
            if not any(first <= item.number <= last for first, last in taken):
                seen.setdefault(item.number, item)
        self._said = sorted(seen.values(), key=lambda item: item.number)
        fallen = [
            item.finding.line for item in self._sightings if _FALLEN.search(item.finding.text)
        ]
        self._life = Life(self._telling(), fallen)
        self._last_end = max(
            (item.finding.line for item in self._sightings if self._may_end(item)), default=0
        )

    def _telling(self) -> Sequence[Spoken]:
        """The ordinary lines from a little above the first finding on; without one, the last."""
        if not self._sightings:
            return self._said[-LAST_LINES:]
        first = self._sightings[0].finding.line - LAST_LINES
        return [item for item in self._said if item.number >= first]

    # --- the two ways ------------------------------------------------------------------------------

    def by_text(self) -> Verdict:
        """From what was printed alone."""
        fatal = [
            item for item in self._sightings if self._may_end(item) and not self._survived(item)
        ]
        if not fatal and (last := self._last_words()) is not None:
            return self._by_last_words(last)
        if not fatal:
            return self._fine(Certainty.LIKELY, "nothing in the text ended the program")
        root = self._root(fatal)
        if root.finding.signature == "elastic_child_failed" and not root.block:
            spoken = [s for s in self._said if s.number < root.finding.line][-2:]
            if words := next((s for s in spoken if _LAST_WORDS.match(s.text)), None):
                return self._by_last_words(words)
        return self._verdict(root, fatal, Certainty.LIKELY if root.level else Certainty.CERTAIN)

    def _last_words(self) -> Spoken | None:
        """The log's last telling line where it is an error's sentence, as sys.exit(text) leaves it."""
        telling = [(item, sign) for item, sign in self._life.signs if sign is not Sign.NOISE]
        if not telling:
            return None
        item, sign = telling[-1]
        loud = [one for one, _ in telling if one.level in LOUD_LEVELS]
        if item.level in LOUD_LEVELS and len(loud) <= max(1, len(telling) // 2):
            said = True
        elif item.level and item.level not in LOUD_LEVELS:
            return None
        else:
            said = _LAST_WORDS.match(item.text) is not None
            done = any(sign is Sign.DONE for _, sign in telling)
            if not done and sign is not Sign.HANDLED and _REFUSAL.match(item.text):
                return item
        return item if said and sign in (Sign.OTHER, Sign.FAILED) else None

    def _by_last_words(self, last: Spoken) -> Verdict:
        sighting = self._without_block("python_error", last.number, last.text, mark=last.text)
        verdict = self._verdict(sighting, [sighting], Certainty.LIKELY)
        return replace(verdict, certainty_reason="the last line is an error's sentence")

    def _without_block(self, signature: str, line: int, text: str, *, mark: str) -> Sighting:
        """An end of the process that no block tells; `mark` is what makes it the same again."""
        known = self._classifier.named(signature)
        finding = Finding(
            signature=known.id,
            role=Role.ROOT,
            line=line,
            text=text,
            severity=known.severity,
            transient=known.transient,
            family=known.family,
            fingerprint=fingerprint(
                signature=known.id, exception=None, frame=None, in_app_frame=None, text=mark
            ),
            title=known.title,
            ends="process",
            last_line=line,
        )
        return Sighting(finding=finding)

    def by_record(self, record: ExitRecord) -> Verdict:
        """From how the process ended; the text says why."""
        if record.code == 0:
            return self._fine(Certainty.CERTAIN, "the exit code is 0")
        possible = [item for item in self._sightings if self._may_end(item)]
        fatal = [item for item in possible if not self._survived(item)] or possible[-1:]
        told = record.code if record.code is not None else record.raw
        code = -record.signal if record.signal is not None else told
        if code in _KILLED and (oom := self._kernel_oom()) is not None:
            return self._verdict(oom, [oom, *fatal], Certainty.CERTAIN)
        if fatal:
            return self._verdict(self._root(fatal), fatal, Certainty.CERTAIN)
        return self._by_code(code)

    def _by_code(self, code: int | None) -> Verdict:
        """No text explains the end: the code or signal alone does."""
        signature = by_exit_code(code if code is not None else 1)
        if signature == "elastic_child_failed":
            signature = "python_error"
        last = self._said[-1] if self._said else None
        how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
        sighting = self._without_block(
            signature,
            last.number if last else 0,
            last.text if last else how,
            mark=last.text if last and code in NO_COMMAND else how,
        )
        verdict = self._verdict(sighting, [sighting], Certainty.GUESS)
        return replace(verdict, certainty_reason=f"only the {how} says so; nothing was printed")

    def _kernel_oom(self) -> Sighting | None:
        event = next((e for e in self._case.kernel if e.kind is KernelEventKind.OOM_KILL), None)
        if event is None:
            return None
        known = self._classifier.named("host_oom")
        return Sighting(
            finding=Finding(
                signature="host_oom",
                role=Role.ROOT,
                line=0,
                text=event.text,
                severity=known.severity,
                transient=known.transient,
                family=known.family,
                fingerprint=fingerprint(
                    signature="host_oom",
                    exception=None,
                    frame=None,
                    in_app_frame=None,
                    text="kernel",
                ),
                title=known.title,
                ends="process",
            )
        )

    # --- did it end? -------------------------------------------------------------------------------

    def _may_end(self, item: Sighting) -> bool:
        if item.context in _HARMLESS_CONTEXTS or item.finding.role is Role.DIAGNOSTIC:
            return False
        return item.level not in ("W", "I", "D") or item.finding.ends == "process"

    def _survived(self, item: Sighting) -> bool:
        """Whether the text shows that the job went on in spite of it."""
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

    # --- which one? --------------------------------------------------------------------------------

    def _root(self, fatal: Sequence[Sighting]) -> Sighting:
        tiers = {id(item): _tier(item) for item in fatal}
        fatal = self._without_victims(fatal)
        best = min(tiers[id(item)] for item in fatal)
        first = fatal[0]
        if best >= 2:
            earlier = [s for s in self._sightings if s not in fatal and self._explains(s, first)]
            if earlier:
                return earlier[-1]
        table = next((s for s in fatal if s.exit_code is not None), None)
        strong = [item for item in fatal if tiers[id(item)] == best]
        if table is not None and len(strong) > 1:
            named = [s for s in strong if s.finding.rank == table.finding.rank and s is not table]
            strong = named or strong
        if (
            first.finding.signature == "interrupted"
            and strong[0].finding.signature == "python_error"
        ):
            return first
        return strong[0]

    def _without_victims(self, fatal: Sequence[Sighting]) -> Sequence[Sighting]:
        """Where a launcher names the rank that failed first and that one printed nothing: without
        the ranks that only lost their peer."""
        table = next((s for s in fatal if s.exit_code is not None and s.block), None)
        if table is None or any(_tier(s) < 2 for s in fatal if s is not table):
            return fatal
        lost = [
            s for s in fatal if s.finding.signature == "nccl_error" and s.finding.rank is not None
        ]
        if lost and all(s.finding.rank != table.finding.rank for s in lost):
            return [s for s in fatal if s not in lost] or fatal
        return fatal

    def _explains(self, item: Sighting, end: Sighting) -> bool:
        """Whether something seen earlier, after which other ranks still printed, explains the end."""
        between = self._life.between(item.finding.last_line, end.finding.line)
        return (
            self._may_end(item)
            and not item.level
            and item.finding.line < end.finding.line
            and _tier(item) < 2
            and not any(sign in (Sign.RESTART, Sign.HANDLED, Sign.DONE) for sign in between)
        )

    # --- the document ------------------------------------------------------------------------------

    def _verdict(self, root: Sighting, fatal: Sequence[Sighting], certainty: Certainty) -> Verdict:
        finding = self._told(root, fatal)
        known = self._classifier.named(finding.signature)
        outcome = self._outcome(finding)
        return Verdict(
            verdict=outcome,
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
            cause=known.cause,
            next_steps=known.next_steps,
            references=known.references,
            findings=self._findings(root, fatal),
            traceback=finding.traceback,
            evidence=(*_evidence(root, finding, fatal), *self._compiling(finding))[
                :MAX_EVIDENCE_LINES
            ],
            certainty=Certainty.LIKELY if finding.truncated else certainty,
            certainty_reason="the log was cut" if finding.truncated else "",
            ends=finding.ends or "process",
        )

    def _compiling(self, finding: Finding) -> list[str]:
        """For a race of compiles: what the log shows of the compile that ran at that time."""
        if finding.family != RACE_FAMILY:
            return []
        near = [(item.number, item.text) for item in self._said if _COMPILES.search(item.text)] + [
            (item.finding.line, item.finding.text)
            for item in self._sightings
            if item.finding.signature == "silent_eager"
        ]
        near = [pair for pair in near if abs(pair[0] - finding.line) < COMPILE_LINES]
        near.sort(key=lambda pair: ("_dynamo" not in pair[1], abs(pair[0] - finding.line)))
        return [f"{number}: {text}"[:300] for number, text in near[:3]]

    def _told(self, root: Sighting, fatal: Sequence[Sighting]) -> Finding:
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

    def _outcome(self, finding: Finding) -> Outcome:
        if finding.signature == "interrupted":
            return Outcome.STOPPED
        if finding.signature == "nccl_timeout":
            return Outcome.HUNG
        if finding.signature == "host_oom" and finding.exception is None:
            return Outcome.KILLED
        return Outcome.CRASHED

    def _findings(self, root: Sighting, fatal: Sequence[Sighting]) -> tuple[Finding, ...]:
        return tuple(replace(item.finding, role=_role(item, root, fatal)) for item in self._shown())

    def _shown(self) -> Sequence[Sighting]:
        """The first findings, and behind them the first of every signature not among those."""
        shown = self._sightings[:MAX_FINDINGS]
        known = {item.finding.signature for item in shown}
        for item in self._sightings[MAX_FINDINGS:]:
            if item.finding.signature not in known:
                known.add(item.finding.signature)
                shown.append(item)
        return shown

    def _fine(self, certainty: Certainty, reason: str) -> Verdict:
        findings = tuple(replace(item.finding, role=Role.DIAGNOSTIC) for item in self._shown())
        return Verdict(
            verdict=Outcome.OK,
            crash=False,
            title="No crash",
            findings=findings,
            certainty=certainty,
            certainty_reason=reason,
        )


def _tier(item: Sighting) -> int:
    """How far from a cause a finding is: 0 names one, 2 lost a peer, 5 only reports an end."""
    signature = item.finding.signature
    if item.exit_code is not None and _only_code(item):
        by_code = {
            "segfault": 3 if item.exit_code in _ABORTS else 1,
            "host_oom": 1,
            "interrupted": 1,
        }
        return by_code.get(signature, _TIERS.get(signature, 0))
    if _by_abort(item.finding):
        return 3
    if item.block and signature == "python_error" and item.finding.exception is None:
        return 3
    return _TIERS.get(signature, 0) + (1 if item.level and item.block else 0)


def _by_abort(finding: Finding) -> bool:
    """Whether it is an abort, by which native code ends itself after an error told elsewhere."""
    if finding.signature != "segfault" or "egmentation" in finding.text:
        return False
    return finding.frame is None or "Aborted" in finding.text


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


def _only_code(item: Sighting) -> bool:
    """Whether a launcher's report is all there is: an exit code, no exception of the worker's."""
    exception = item.finding.exception
    return exception is None or exception.type.rpartition(".")[2] == "ChildFailedError"


def _needed(finding: Finding) -> bool:
    """Whether the work of a thread that died was the job's own, not a helper's."""
    if finding.signature in _DEVICE_WORK:
        return True
    frame = finding.in_app_frame
    names = f"{finding.thread or ''} {frame.function if frame else ''}".lower()
    return any(word in names for word in _NEEDED_THREADS)


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
