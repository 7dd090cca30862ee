"""What a line says about the life of the job: it goes on, it is done, it starts again, it gave up.

Owns these few readings of ordinary lines; they are looked at only beside a finding and at a log's end.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import islice

from orchestrator.core.detect.prefilter import Suspects
from orchestrator.core.detect.sighting import Spoken
from orchestrator.core.parse.stack_lines import GOING_ON

MANY_LINES = 1000
"""For fewer the scanner is not worth its compiling."""
NEW_LIFE_LINES = 3
"""Lines of progress that only workers started anew can have printed."""


class Sign(StrEnum):
    """What an ordinary line is a sign of."""

    PROGRESS = "progress"
    DONE = "done"
    RESTART = "restart"
    HANDLED = "handled"
    FAILED = "failed"
    NOISE = "noise"
    OTHER = "other"


_NOISE = re.compile(
    r"^\s*$|^[-=*_~#. ]{4,}$|^Exception ignored (?:in|on|while|from)|(?:User|Future|Deprecation|Runtime|Resource)Warning|^\s+(?:warnings\.)?warn\w*\("
    r"|destroy_process_group|resource_tracker|leaked (?:semaphore|shared_memory)|^wandb:|^NCCL |NCCL (?:INFO|WARN)"
    r"|^\s*frame #\d+|^<omitting|^\s+at |closing signal SIG|CUDA_LAUNCH_BLOCKING|TORCH_USE_CUDA_DSA|TORCHDYNAMO"
    r"|^(?:\(\w[\w.-]*\) )?[\w.-]+@[\w.-]+:\S*[$#]|^[$#%] |^logout|^exit$|HYDRA_FULL_ERROR|Set the environment variable"
    r"|process group has NOT been destroyed|https?://\S+\s*$|^srun: |^slurmstepd: |core dumped|^\s*\^+\s*$"
)
_DONE = re.compile(
    r"\b(?:training|run|job|all|evaluation|finetuning|fine-tuning|pretraining|main)\b.{0,30}\b(?:done|complete[d]?|finished|succeeded|successful(?:ly)?|ended normally)\b"
    r"|^\W*(?:done|finished|complete[d]?|all done|success|bye|ok)\b[\s!.]*(?:in \d.*|\(.*\))?$"
    r"|\bfinished (?:training|in \d|after \d|successfully|with exit code 0|step|all)|\bcompleted (?:successfully|training|all|in \d)"
    r"|(?<!\t)exit(?:ed)?(?: with)?(?: exit)?[ _]?(?:code|status)[ :=]+0\b|`?max_(?:steps|epochs)=?\S*`? reached|\bfinal (?:loss|checkpoint|model|metrics|eval)"
    r"|\bsaved? final\b|\breached (?:max|final|target|the last) \w+|[Rr]un summary|training (?:wall )?time|total (?:wall|training) time"
    r"|\b(?:saved|wrote|exported|uploaded|pushed) (?:the )?(?:final )?(?:model|weights|results|report)\b"
    r"|\b(?:results?|report|metrics|scores|predictions) (?:written|saved|exported|uploaded|pushed) to\b"
    r"|^[= ]*\d+ passed(?:, \d+ (?:skipped|warnings?|xfailed|xpassed|deselected|rerun)){0,6} in \d",
    re.IGNORECASE,
)
_RESTART = re.compile(
    r"(?<!Back-off )[Rr]estart(?:ing|ed)\b|\b(?:worker|process) group\b.{0,60}(?:restart|start)|\b(?:attempt|retry|try) #?(?P<nth>[2-9]\d*)\b(?!(?:/| of )(?P=nth)\b)"
    r"|[Rr]esum(?:ing|ed) (?:training |run )?(?:from|at)\b|[Rr]equeu(?:e|ed|ing)|[Rr]elaunch(?:ing|ed)"
)
_HANDLED = re.compile(
    r"\b(?:re-?try(?:ing)?|retries|will (?:re)?try|fall(?:ing|s|en)?[ -]?back|fallback|skip(?:ping|ped|s)?|ignor(?:e|ing|ed)|recover(?:ed|ing|y)?"
    r"|continu(?:e|es|ing|ed)|reduc(?:e|ing|ed) (?:the )?(?:batch|micro)|halv(?:e|ing|ed)|lower(?:ing|ed) (?:the )?batch|trying (?:again|batch|with|the next|next)|non-?fatal|not fatal|handled|swallow(?:ed|ing)"
    r"|caught(?! in function)|disabl(?:ed|ing)|using (?:eager|the previous|previous|default|cpu|slow)|as expected|expected failure|xfail|simulated|injected|dropp(?:ed|ing)|suppress(?:ed|ing)|next candidate|too big|too large, |does not fit)\b",
    re.IGNORECASE,
)
_FAILED = re.compile(
    r"\b(?:exit(?:ed)?(?: with)?(?: exit)?[ _]?(?:code|status)|rc|returncode|return code)[ :=]+-?[1-9]\d*\b|\bjob failed\b|\brun failed\b|\btraining failed\b|\baborting\b|\bgiving up\b"
    r"|(?:make|ninja): \*\*\*|\bFAILED\b|Killed|core dumped|\bfatal\b|\bterminated\b",
    re.IGNORECASE,
)
_QUOTES = re.compile(
    r"\s*(?:sample|prompt|completion|generated?|output|input|response|question|answer|target|text|prediction|example|assistant|user|label|reference|hypothesis|expected|decoded)s?(?: ?[\[(#]?\d*[\])]?)?\s*[:>=|]",
    re.IGNORECASE,
)
_OF_QUOTES = (
    *("sample", "generat", "prompt", "completion", "example", "transcript", "quot", "begin"),
    *("previous run", "previous log", "previous attempt", "previous crash", "last run"),
    *("last crash", "old log", "log of", "content of", "contents of", "tail of", "replay"),
    *("docstring", "document", "dataset"),
)
"""Anywhere in a line that announces a text."""


_SERVES = re.compile(
    r'"(?:GET|POST|PUT) (?!/(?:health|metrics|ready|live|ping))\S{1,400} HTTP/[\d.]+" 2\d\d\b'
)
"""A server's line on a request that it answered; one that asks how it is shows nothing."""
_BAR = re.compile(r"\b\d?\d%\|")
"""A progress bar that is not full."""


_SIGNS = (
    (_NOISE, Sign.NOISE),
    (_RESTART, Sign.RESTART),
    (_HANDLED, Sign.HANDLED),
    (_DONE, Sign.DONE),
    (GOING_ON, Sign.PROGRESS),
    (_SERVES, Sign.PROGRESS),
    (_FAILED, Sign.FAILED),
)
"""The first that matches is meant."""


def signs_of(texts: Sequence[str]) -> list[Sign]:
    """What each line is a sign of; OTHER where it says nothing of the kind."""
    if len(texts) < MANY_LINES:
        return [_sign_of(text[:500], None) for text in texts]
    suspects = Suspects([(_for_scanner(pattern),) for pattern, _ in _SIGNS])
    return [_sign_of(text[:500], suspects) for text in texts]


def _sign_of(text: str, suspects: Suspects | None) -> Sign:
    # The scanner's letters are those of ASCII.
    some = suspects.of(text) if suspects and text.isascii() else range(len(_SIGNS))
    return next((_SIGNS[i][1] for i in some if _SIGNS[i][0].search(text)), Sign.OTHER)


def _for_scanner(pattern: re.Pattern[str]) -> str:
    flags = "(?i)" if pattern.flags & re.IGNORECASE else ""
    return f"{flags}(?:{pattern.pattern})"


def is_handled(text: str) -> bool:
    """Whether the line says that somebody dealt with the error beside it."""
    return bool(_HANDLED.search(text[:500]))


@lru_cache(maxsize=64)
def announces_quote(text: str) -> bool:
    """Whether the line introduces text that is data, not the program's own."""
    text = text[:300]
    if _QUOTES.match(text):
        return True
    small = text.lower()
    return any(words in small for words in _OF_QUOTES)


class Life:
    """What ordinary lines say of the time behind any line; built once, asked often."""

    def __init__(self, said: Iterable[Spoken], fallen: Iterable[int] = ()) -> None:
        """`fallen` are lines by which a launcher told that it ended all of its workers."""
        lines = list(said)
        self.signs = list(zip(lines, signs_of([item.text for item in lines]), strict=True))
        self._fallen = sorted(fallen)
        self._numbers = [item.number for item, _ in self.signs]
        self._of: dict[Sign, list[int]] = {sign: [] for sign in Sign}
        self._alive: dict[str, list[int]] = {}
        for item, sign in self.signs:
            self._of[sign].append(item.number)
            if sign in (Sign.PROGRESS, Sign.DONE):
                self._alive.setdefault(item.key, []).append(item.number)

    def near(self, line: int, count: int) -> list[Sign]:
        """The signs of the lines at most `count` behind the line."""
        first = bisect_right(self._numbers, line)
        last = bisect_right(self._numbers, line + count)
        return [sign for _, sign in self.signs[first:last]]

    def between(self, line: int, end: int) -> list[Sign]:
        """The signs of the lines behind one and before the other."""
        return self.near(line, end - line - 1)

    def count(self, sign: Sign, line: int) -> int:
        """How many lines of that sign stand behind the line."""
        numbers = self._of[sign]
        return len(numbers) - bisect_right(numbers, line)

    def alive(self, line: int, key: str) -> int:
        """How many lines behind it show progress or an end of the speaker's work.

        A speaker without a name speaks for all, and all speak for one without a name.
        """
        found = -1 if self._redrawn(line) else 0
        for speaker, numbers in self._alive.items():
            if not key or not speaker or speaker == key:
                found += len(numbers) - bisect_right(numbers, line)
        return found

    def _redrawn(self, line: int) -> bool:
        """Whether all that follows is a progress bar drawn once more, as its library does at exit."""
        after = islice(self.signs, bisect_right(self._numbers, line), None)
        telling = islice((item for item, sign in after if sign is not Sign.NOISE), 2)
        first, second = next(telling, None), next(telling, None)
        return first is not None and second is None and _BAR.search(first.text) is not None

    def restarted(self, line: int) -> bool:
        """Whether it was started again behind the line and went on then."""
        again = self._of[Sign.RESTART]
        position = bisect_right(again, line)
        if position < len(again) and self.count(Sign.PROGRESS, again[position]) > 0:
            return True
        fallen = bisect_right(self._fallen, line)
        return (
            fallen < len(self._fallen)
            and self.count(Sign.PROGRESS, self._fallen[fallen]) >= NEW_LIFE_LINES
        )
