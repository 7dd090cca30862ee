"""What a log shows of a race of compiles: who died, on which device, who was compiling.

Owns the few sentences and lines that are added where two threads met in torch.compile; whether
they did is the signature's question.
"""

import re
from collections.abc import Iterator, Sequence

from orchestrator.core.detect.sighting import Sighting, Spoken
from orchestrator.core.findings import Finding

RACE_FAMILY = "compile_thread_race"
NEAR_LINES = 400
_COMPILES = re.compile(
    r"\b(?:re)?compil(?:e|es|ing|ation)\b|\btracing\b|\bwarm(?:ing|ed)?[ -]?up\b|_dynamo|_inductor"
    r"|cache (?:is )?(?:cold|empty|cleared|miss)|(?:cold|cleared|empty) (?:compile )?cache",
    re.IGNORECASE,
)
_COLD = re.compile(
    r"cache\b.{0,40}\b(?:cold|empty|cleared|wiped|removed|miss)|(?:cold|cleared|empty|fresh) (?:compile )?cache"
    r"|\b(?:fxgraph|aot_?autograd|inductor)\w* cache miss",
    re.IGNORECASE,
)
_DEVICE = re.compile(r"\bcuda:\d+\b")
_TRACES = re.compile(r"fx/_symbolic_trace\.py|proxy_tensor\.py|_dynamo/convert_frame\.py")


class Scene:
    """The lines and findings of one log, among which the other thread is looked for."""

    def __init__(self, said: Sequence[Spoken], sightings: Sequence[Sighting]) -> None:
        self._said = said
        self._sightings = sightings

    def evidence(self, finding: Finding) -> list[str]:
        """For a race: the lines of the compile that ran at that time, the nearest first."""
        if finding.family != RACE_FAMILY:
            return []
        near = [*self._lines(finding, _COMPILES)]
        near += [
            (item.finding.line, item.finding.text)
            for item in self._sightings
            if item.finding.signature == "silent_eager" and _is_near(item.finding.line, finding)
        ]
        near.sort(key=lambda pair: ("_dynamo" not in pair[1], abs(pair[0] - finding.line)))
        return [f"{number}: {text}"[:300] for number, text in near[:3]]

    def sentences(self, finding: Finding) -> str:
        """For a race: who was the victim and where, who traced, and whether a cache was cold."""
        if finding.family != RACE_FAMILY:
            return ""
        return " ".join(self._told(finding))

    def _told(self, finding: Finding) -> Iterator[str]:
        if finding.thread:
            device = self._device(finding)
            yield f"Here {finding.thread} died{f' on {device}' if device else ''}."
        for other in self._others(finding):
            tracing = _TRACES.search(other.traceback) is not None
            how = "was tracing" if tracing else "died as well"
            yield f"{other.thread} {how} (line {other.line})."
        if cold := next(self._lines(finding, _COLD), None):
            yield f"The compile cache was cold (line {cold[0]})."

    def _device(self, finding: Finding) -> str | None:
        """The device that the thread's name, its stack, or a line that names the thread tells."""
        texts = [finding.thread or "", finding.traceback]
        texts += [item.text for item in self._said if (finding.thread or "") in item.text]
        found = (_DEVICE.search(text) for text in texts)
        return next((match.group() for match in found if match), None)

    def _others(self, finding: Finding) -> Iterator[Finding]:
        seen = {finding.thread}
        for item in self._sightings:
            other = item.finding
            if other.thread and other.thread not in seen and _is_near(other.line, finding):
                seen.add(other.thread)
                yield other

    def _lines(self, finding: Finding, pattern: re.Pattern[str]) -> Iterator[tuple[int, str]]:
        for item in self._said:
            if _is_near(item.number, finding) and pattern.search(item.text):
                yield item.number, item.text


def _is_near(line: int, finding: Finding) -> bool:
    return abs(line - finding.line) < NEAR_LINES
