"""What a rule of the inventory expects of the log over time: a first line, the next ones, numbers.

Owns one rule's clock. The words are HyperPod's: `start_within`, `every`, `until`, `threshold`.
"""

import operator
from collections.abc import Callable, Mapping

from orchestrator.core.detect.signatures.model import Expectation, Signature
from orchestrator.core.patterns import Match, Pattern

MOST_TORN = 4096
"""Of a line that is not over; what is expected is said in its first characters."""
_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "gt": operator.gt,
    "gteq": operator.ge,
    "lt": operator.lt,
    "lteq": operator.le,
    "eq": operator.eq,
}


class RuleWatch:
    """One rule; told of lines as they come, asked what is wrong now and then."""

    def __init__(
        self, rule: Signature, wanted: Expectation, started_at: float, *, seen_before: bool
    ) -> None:
        self.rule = rule
        self._wanted = wanted
        self._pattern = rule.matcher("lines")
        self._until = Pattern(wanted.until) if wanted.until else None
        self._started_at = started_at
        # Whether the first line came is not known where a part of the log was read by another.
        self._matched_at: float | None = started_at if seen_before else None
        self._bad: list[float] = []
        self._over = False

    def line(self, text: str, at: float) -> None:
        """A line of the log."""
        if self._over or self._pattern is None:
            return
        if self._until is not None and self._until.search(text):
            self._over = True
            return
        match = self._pattern.search(text)
        if match is None:
            return
        self._matched_at = at
        if self._wanted.value is not None:
            self._weigh(match, self._wanted.value)

    def resume(self, at: float) -> None:
        """The target is seen again: what was not seen is not late."""
        if self._matched_at is None:
            self._started_at = max(self._started_at, at)
        else:
            self._matched_at = at

    def wrong(self, now: float) -> str | None:
        """What does not hold now; None while all does."""
        wanted = self._wanted
        if self._over:
            return None
        if len(self._bad) >= wanted.points:
            many = f", {wanted.points} times in a row" if wanted.points > 1 else ""
            held = f"{wanted.operator} {wanted.value:g}"
            return f"{self.rule.id}: {wanted.group} is {self._bad[-1]:g} ({held}){many}"
        if self._matched_at is None:
            within_s = wanted.start_within_s
            late = within_s is not None and now - self._started_at > within_s
            return f"{self.rule.id}: no line within {within_s:g} s of the start" if late else None
        if wanted.every_s is not None and now - self._matched_at > wanted.every_s:
            return f"{self.rule.id}: no next line within {wanted.every_s:g} s"
        return None

    def _weigh(self, match: Match, limit: float) -> None:
        try:
            number = float(match[self._wanted.group])
        except (IndexError, TypeError, ValueError):
            # A line without that number says nothing of it.
            return
        bad = _COMPARE[self._wanted.operator](number, limit)
        self._bad = [*self._bad, number][-self._wanted.points :] if bad else []


class RuleWatches:
    """Every rule that expects something; lines may be cut anywhere."""

    def __init__(
        self, rules: tuple[Signature, ...], started_at: float, *, seen_before: bool
    ) -> None:
        """`seen_before`: the log began before `started_at`, when an earlier daemon read it."""
        self._watches = [
            RuleWatch(rule, rule.expectation, started_at, seen_before=seen_before)
            for rule in rules
            if rule.expectation is not None
        ]
        self._torn = ""

    def text(self, chunk: bytes, at: float) -> None:
        """The next bytes of the log."""
        if not self._watches:
            return
        *lines, self._torn = (self._torn + chunk.decode("utf-8", "replace")).split("\n")
        self._torn = self._torn[:MOST_TORN]
        for line in lines:
            for watch in self._watches:
                watch.line(line.rstrip("\r"), at)

    def resume(self, at: float) -> None:
        """The target is seen again."""
        for watch in self._watches:
            watch.resume(at)

    def wrong(self, now: float) -> list[tuple[Signature, str]]:
        """Each rule that does not hold now, with the reason."""
        found = ((watch.rule, watch.wrong(now)) for watch in self._watches)
        return [(rule, text) for rule, text in found if text is not None]
