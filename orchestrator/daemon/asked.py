"""What the body of each request may hold; anything else is refused in words before it is acted on.

Owns the types of the keys alone. What a value means, and whether it is there, is for whoever acts.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from orchestrator.core.errors import UsageError


class _Kind(NamedTuple):
    """A type of value: how it is called, and how it is known."""

    name: str
    fits: Callable[[Any], bool]


def _is_number(value: Any) -> bool:
    return _is_whole(value) or (isinstance(value, float) and math.isfinite(value))


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63


def _are_pairs(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(one, str) or _is_number(one) for one in value.values()
    )


MOST_REASON_CHARS = 1000
"""What a person says of a run is shown in lines and lists, and sent; a file is no reason."""
_REASON = _Kind(
    f"a text of {MOST_REASON_CHARS} characters at most (-m)",
    lambda value: isinstance(value, str) and len(value) <= MOST_REASON_CHARS,
)
_TEXT = _Kind("a text", lambda value: isinstance(value, str))
_TEXTS = _Kind(
    "a list of texts",
    lambda value: isinstance(value, list) and all(isinstance(one, str) for one in value),
)
_FLAG = _Kind("true or false", lambda value: isinstance(value, bool))
_NUMBER = _Kind("a number", _is_number)
_WHOLE = _Kind("a whole number", _is_whole)
_PAIRS = _Kind("an object of texts", _are_pairs)

_RUN = {
    "job": _TEXT,
    "why": _REASON,
    **dict.fromkeys(("replace", "force", "deploy", "cold_cache"), _FLAG),
    "env": _PAIRS,
    "args": _TEXTS,
}
_BODIES: Mapping[str, Mapping[str, _Kind]] = {
    "deploy": {"jobs": _TEXTS, "dry_run": _FLAG},
    "run": _RUN,
    "repeat": {**_RUN, "count": _WHOLE, "until_crash": _FLAG},
    "bisect": {**_RUN, "good": _TEXT, "bad": _TEXT, "count": _WHOLE},
    "adopt": {"target": _TEXT, "what": _TEXT, "take_pipe": _FLAG, "why": _REASON},
    "simulate": {"signature": _TEXT, "target": _TEXT},
    "stop": {"grace_s": _NUMBER},
    "prune": {"dry_run": _FLAG, "run_age_s": _NUMBER},
    "rollback": {"job": _TEXT, "release": _TEXT},
    "alert-test": {"sink": _TEXT},
    "silence-add": {"match": _PAIRS, "for_s": _NUMBER, "why": _REASON},
    "give-up": {"to": _TEXT},
    "prune-target": {"job": _TEXT, "run_age_s": _NUMBER, "dry_run": _FLAG},
    "end-process": {"pid": _WHOLE, "start": _WHOLE, "command": _TEXT, "grace_s": _NUMBER},
}


def checked(what: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The body as it is; UsageError where a key that is known has a value of another type."""
    for name, kind in _BODIES.get(what, {}).items():
        value = body.get(name)
        if value is not None and not kind.fits(value):
            remedy = "Say it in fewer words." if kind is _REASON else None
            raise UsageError(f"`{name}` is {kind.name}.", remedy=remedy)
    return body
