"""A log's last sentence: whether a program gave up with it.

Owns the few forms that are taken for an end where nothing else tells of one; a sum, a rate or a
remark at the end of a job that is done is none.
"""

import re
from collections.abc import Sequence

from orchestrator.core.detect.afterwards import Sign
from orchestrator.core.detect.sighting import Spoken

LOUD_LEVELS = ("E", "C")
FIRST_LINES = 16
"""Behind more ordinary lines than these a program is at its work, and lists what it found."""
_WORDS = re.compile(r"[A-Za-z]{3}")
_ERROR = re.compile(
    r"^(?:\S{1,60}: )?(?:fatal |usage )?error: (?![-+\d.]+(?:\s|%|$))\S"
    r"|^(?:\S{1,60} )?(?:exit(?:ed with)?(?: code| status)|rc|return ?code)\s?[:=]?\s?[1-9]\d{0,2}\W*$",
    re.IGNORECASE,
)
_GIVES_UP = re.compile(
    r"\b(?:giving up|aborting(?=[.!:,;(]|$| run| job| training)|bailing out|(?:can ?not|can't|unable to|refus\w+ to) (?:continue|proceed|resume))\b",
    re.IGNORECASE,
)
_REFUSAL = re.compile(
    r"^(?!.*[:=] ?(?:\d[\d.]*%?|\[\]|\{\}|none|no)$)"
    r"(?!No (?:\w+ )?(?:errors?|nans?|problems?|issues?|warnings?|duplicates?|conflicts?|corrupt\w*|missing)\b)"
    r"(?:(?:Cannot|Can't|Could ?n[o']t|Could not|Unable to|Failed to|Refusing to|Not enough)\b|No such\b"
    r"|(?:Missing|Invalid|Unknown|Unsupported|Unrecognized) (?:\w+ )?(?:value|argument|option|key|field|config\w*"
    r"|file|model|data\w*|device|dtype|backend|command|column|variable|parameter)\b"
    r"|No [\w /.,'-]{1,60}\b(?:found|given|available|specified|provided)\b)",
    re.IGNORECASE,
)
"""Sentences with which a program leaves that has not begun its work."""


_CONDITION = re.compile(
    r"\b(?:must (?:not )?(?:be|have|divide|match|equal|contain|start|end|exist)\b|(?:has|have) to be \w+ble\b|cannot be (?:used|combined|set|empty)\b"
    r"|(?:does|do) not (?:match|divide)\b|(?:is|are) (?:not (?:divisible|a (?:directory|file|valid)\b)|required\b|mutually exclusive))",
    re.IGNORECASE,
)
"""What a check of the configuration says that was not met."""
_MILD = re.compile(
    r"^\W*(?:warn|note|hint|tip|info|debug|skip|no\b)|\b(?:using|default|instead|will|disabled|assum\w+|fall\w*|ignor\w+|slow\w*|deprecated|recommended|continu\w+|may|might|should|pad\w*|round\w*|resiz\w+|creat\w+|overwrit\w+|reus\w+|download\w*|retr(?:y|ies)\w*|wait\w*|skip\w*|set to|clamp\w*|score|answer|task|sample|test)\b|[:=] ?\d[\d.]*%?$",
    re.IGNORECASE,
)
"""In sentences that say such a thing and go on."""
_UNMET = re.compile(
    r"\b(?:already exists\b|(?:does|do) not exist\b|(?:is|are) not (?:supported|set|installed|writable|empty|defined|registered)\b)"
)
_ADVISES = re.compile(r"[;,.:(] ?(?:use|pass|set|give|specify|rerun with|run with) (?:the )?--\w")


_NAMES_FILE = re.compile(
    r"^\S{1,80}\.(?:ya?ml|json|toml|cfg|ini|py):\d+: \S"
    r"|^(?:No|Cannot|Could not|Unable to|Failed to)\b.{1,80}\s[.~]?/\w\S*$",
    re.IGNORECASE,
)
"""Such sentences that name the file."""


def gave_up(telling: Sequence[tuple[Spoken, Sign]]) -> Spoken | None:
    """The last of the log's last telling lines where it is such a sentence, as sys.exit leaves it."""
    if not telling:
        return None
    item, sign = telling[-1]
    if item.level in LOUD_LEVELS and not _all_are_loud(telling):
        said = _WORDS.search(item.text) is not None and (
            sign in (Sign.OTHER, Sign.FAILED)
            or (sign is Sign.PROGRESS and _CONDITION.search(item.text) is not None)
        )
    elif item.level and item.level not in LOUD_LEVELS:
        said = False
    else:
        said = _is_last(item.text, sign, [one for _, one in telling[:-1]])
    return item if said else None


def is_error(text: str) -> bool:
    """Whether the line is an error's sentence by its form alone."""
    return _ERROR.match(text) is not None


def names_reason(text: str) -> bool:
    """Whether the line may be why a program left that is known to have failed."""
    if is_error(text) or _GIVES_UP.search(text) or _REFUSAL.match(text):
        return True
    return _is_condition(text)


def _is_condition(text: str) -> bool:
    return _CONDITION.search(text) is not None and _MILD.search(text) is None


def _all_are_loud(telling: Sequence[tuple[Spoken, Sign]]) -> bool:
    """Whether the level says nothing, since whoever passes lines on gives it to all of them."""
    loud = [one for one, _ in telling if one.level in LOUD_LEVELS]
    return len(loud) > max(1, len(telling) // 2)


def _is_last(text: str, sign: Sign, before: Sequence[Sign]) -> bool:
    if sign is Sign.HANDLED:
        return False
    if is_error(text):
        return sign in (Sign.OTHER, Sign.FAILED)
    if Sign.DONE in before:
        return False
    if _GIVES_UP.search(text):
        return True
    early = Sign.PROGRESS not in before and len(before) < FIRST_LINES
    advised = _ADVISES.search(text) is not None
    if (_is_condition(text) and (early or advised)) or (advised and _UNMET.search(text)):
        return True
    refused = _REFUSAL.match(text) is not None
    named = _NAMES_FILE.match(text) is not None
    return (named and (refused or ":" in text)) or (refused and Sign.PROGRESS not in before)
