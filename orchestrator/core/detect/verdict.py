"""Findings, the log's end, the exit record and the kernel -> the one verdict.

Owns the two ways to it: from the exit record, and from the text alone. Text is weighed here, never
read anew: whether something ended is `survival`'s question, which one is meant `ranking`'s, and
what is told of it `report`'s.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

from orchestrator.core.detect.afterwards import Life, Sign
from orchestrator.core.detect.classify import Classifier
from orchestrator.core.detect.exit_codes import by_exit_code
from orchestrator.core.detect.fingerprint import fingerprint
from orchestrator.core.detect.last_words import gave_up, names_reason
from orchestrator.core.detect.race import Scene
from orchestrator.core.detect.ranking import Ranking
from orchestrator.core.detect.report import Report
from orchestrator.core.detect.sighting import Sighting, Spoken
from orchestrator.core.detect.survival import LAST_LINES, Survival, may_end
from orchestrator.core.detect.wording import NO_COMMAND, worded
from orchestrator.core.findings import Certainty, Finding, Role, Verdict
from orchestrator.core.model import ExitRecord
from orchestrator.core.parse.kernel_log import KernelEvent, KernelEventKind

_FALLEN = re.compile(r"failed \(exitcode: -?\d+\) local_rank: \d+")
"""Torch's launcher, once it has ended the other workers too; it says nothing when it starts new ones."""
_KILLED = frozenset({-9, 137})


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
    found = court.by_text() if record is None else court.by_record(record)
    return worded(found, record, _oom_kill(case))


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
        first = case.tail[0].number if case.tail else 0
        taken = [
            (s.finding.line, s.finding.last_line)
            for s in self._sightings
            if s.finding.last_line >= first
        ]
        seen: dict[int, Spoken] = {item.number: item for item in case.said}
        for item in case.tail:
            if not any(first <= item.number <= last for first, last in taken):
                seen.setdefault(item.number, item)
        self._said = sorted(seen.values(), key=lambda item: item.number)
        fallen = [
            item.finding.line for item in self._sightings if _FALLEN.search(item.finding.text)
        ]
        self._life = Life(self._telling(), fallen)
        self._survival = Survival(self._life, self._sightings)
        self._ranking = Ranking(self._life, self._sightings)
        self._report = Report(self._sightings, classifier, Scene(self._said, self._sightings))

    def _telling(self) -> Sequence[Spoken]:
        """The ordinary lines from a little above the first finding on; without one, the last."""
        if not self._sightings:
            return self._said[-LAST_LINES:]
        first = self._sightings[0].finding.line - LAST_LINES
        return [item for item in self._said if item.number >= first]

    # --- the two ways ------------------------------------------------------------------------------

    def by_text(self) -> Verdict:
        """From what was printed alone."""
        fatal = [item for item in self._sightings if may_end(item) and not self._survival.of(item)]
        if not fatal and (last := self._last_words()) is not None:
            return self._by_last_words(last)
        if not fatal:
            return self._report.fine(Certainty.LIKELY, "nothing in the text ended the program")
        root = self._ranking.root(fatal)
        nameless = root.finding.signature == "elastic_child_failed"
        if nameless and (words := self._words_before(root.finding.line)):
            return self._by_last_words(words)
        return self._report.crash(
            root, fatal, Certainty.LIKELY if root.level else Certainty.CERTAIN
        )

    def _words_before(self, line: int) -> Spoken | None:
        """The worker's own sentence just above the launcher's report that it failed."""
        spoken = (s for s in reversed(self._life.signs) if s[0].number < line and not s[0].level)
        telling = (item for item, sign in spoken if sign is not Sign.NOISE)
        near = reversed(list(islice(telling, 2)))
        return next((s for s in near if names_reason(s.text)), None)

    def _last_words(self) -> Spoken | None:
        return gave_up([pair for pair in self._life.signs if pair[1] is not Sign.NOISE])

    def _by_last_words(self, last: Spoken) -> Verdict:
        sighting = self._without_block("python_error", last.number, last.text, mark=last.text)
        verdict = self._report.crash(sighting, [sighting], Certainty.LIKELY)
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
            return self._report.fine(Certainty.CERTAIN, "the exit code is 0")
        possible = [item for item in self._sightings if may_end(item)]
        fatal = [item for item in possible if not self._survival.of(item)] or possible[-1:]
        told = record.code if record.code is not None else record.raw
        code = -record.signal if record.signal is not None else told
        if code in _KILLED and (oom := self._kernel_oom()) is not None:
            return self._report.crash(oom, [oom, *fatal], Certainty.CERTAIN)
        if fatal:
            return self._report.crash(self._ranking.root(fatal), fatal, Certainty.CERTAIN)
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
        verdict = self._report.crash(sighting, [sighting], Certainty.GUESS)
        return replace(verdict, certainty_reason=f"only the {how} says so; nothing was printed")

    def _kernel_oom(self) -> Sighting | None:
        event = _oom_kill(self._case)
        if event is None:
            return None
        return self._without_block("host_oom", 0, event.text, mark="kernel")


def _oom_kill(case: Case) -> KernelEvent | None:
    return next((one for one in case.kernel if one.kind is KernelEventKind.OOM_KILL), None)
