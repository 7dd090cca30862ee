"""A user's own rules, from the inventory's `rules:` -> signatures.

Owns the keys of a rule and their errors; HyperPod's field names are understood beside ours.
"""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TypeVar

from orchestrator.core.detect.signatures.model import Expectation, Signature, signature
from orchestrator.core.findings import Role
from orchestrator.core.model import Severity
from orchestrator.core.patterns import any_of, read_pattern

_HYPERPOD = {
    "logPattern": "pattern",
    "expectedStartCutOffInSeconds": "start_within",
    "expectedRecurringFrequencyInSeconds": "every",
    "stopPattern": "until",
    "faultOnMatch": "fault_on_match",
    "metricThreshold": "value",
    "operator": "op",
    "metricEvaluationDataPoints": "points",
}
_KEYS = [
    "name",
    "pattern",
    "unless",
    "title",
    "class",
    "cause",
    "next_steps",
    "references",
    "role",
    "severity",
    "transient",
    "family",
    "fault_on_match",
    "start_within",
    "every",
    "until",
    "threshold",
    "value",
    "op",
    "points",
    "group",
    "types",
    "says",
]
_OPERATORS = ("gt", "gteq", "lt", "lteq", "eq")
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_rule(mapping: Mapping[str, object]) -> Signature:
    """The signature of one rule; ValueError `KEY: reason` for the first thing wrong with it.

    `pattern` is searched in every line. A rule is a fault where `fault_on_match` is true, or where
    it names a `role` or a `class`; else it is watched (`start_within`, `every`, `until`,
    `threshold`) and its matches are diagnostic.
    """
    rule = {_HYPERPOD.get(key, key): value for key, value in mapping.items()}
    for key in rule:
        if key not in _KEYS:
            near = get_close_matches(key, [*_KEYS, *_HYPERPOD], 1)
            raise ValueError(
                f"{key}: is no key of a rule" + (f"; did you mean {near[0]}?" if near else "")
            )
    name = _text(rule, "name") or _text(rule, "class")
    if not name:
        raise ValueError("name: is missing; give the rule a name")
    pattern, says, types = (_patterns(rule, key) for key in ("pattern", "says", "types"))
    if not (pattern or says or types):
        raise ValueError("pattern: is missing; give a regular expression to search in each line")
    fault = bool(rule.get("fault_on_match", "role" in rule or "class" in rule))
    return signature(
        any_of,
        id=_text(rule, "class") or name,
        title=_text(rule, "title") or name,
        cause=_text(rule, "cause") or f"The rule {name} of the inventory matched.",
        next_steps=_strings(rule, "next_steps"),
        references=_strings(rule, "references"),
        role=_choice(rule, "role", Role, Role.ROOT) if fault else Role.DIAGNOSTIC,
        severity=_choice(rule, "severity", Severity, Severity.CRITICAL if fault else Severity.INFO),
        transient=_truth(rule, "transient"),
        family=_text(rule, "family") or None,
        lines=pattern,
        whole_lines=True,
        says=(*says, *pattern),
        types=types,
        unless=_patterns(rule, "unless"),
        expectation=_expectation(rule),
    )


def _expectation(rule: Mapping[str, object]) -> Expectation | None:
    threshold = rule.get("threshold", {})
    if not isinstance(threshold, Mapping):
        raise ValueError("threshold: must be a mapping of group, op, value, points")  # noqa: TRY004  # ValueError is this function's contract
    numbers = {**{k: rule[k] for k in ("value", "op", "points", "group") if k in rule}, **threshold}
    if not numbers and not any(key in rule for key in ("start_within", "every", "until")):
        return None
    operator = str(numbers.get("op", "gteq"))
    if operator not in _OPERATORS:
        raise ValueError(f"op: {operator} is none of {' '.join(_OPERATORS)}")
    until = _patterns(rule, "until")
    return Expectation(
        start_within_s=_seconds(rule, "start_within"),
        every_s=_seconds(rule, "every"),
        until=until[0] if until else None,
        group=str(numbers.get("group", "value")),
        operator=operator,
        value=_number(numbers, "value"),
        points=int(_number(numbers, "points") or 1),
    )


def _text(rule: Mapping[str, object], key: str) -> str:
    value = rule.get(key, "")
    if not isinstance(value, str):
        raise ValueError(f"{key}: must be text, not {type(value).__name__}")  # noqa: TRY004  # as above
    return value


def _strings(rule: Mapping[str, object], key: str) -> tuple[str, ...]:
    value = rule.get(key, ())
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"{key}: must be text or a list of texts")
    return tuple(value)


def _patterns(rule: Mapping[str, object], key: str) -> tuple[str, ...]:
    """The patterns of a key as the engines read them."""
    patterns, names = list[str](), frozenset[str]()
    for text in _strings(rule, key):
        try:
            pattern = read_pattern(text)
        except ValueError as error:
            raise ValueError(f"{key}: {text!r} {error}") from error
        if pattern.search(""):
            raise ValueError(
                f"{key}: {text!r} matches an empty line; make it say what it looks for"
            )
        if twice := names & pattern.names:
            raise ValueError(f"{key}: several patterns have a group {min(twice)}; name it in one")
        names |= pattern.names
        patterns.append(pattern.text)
    return tuple(patterns)


_Word = TypeVar("_Word", Role, Severity)


def _choice(rule: Mapping[str, object], key: str, kind: type[_Word], default: _Word) -> _Word:
    if key not in rule:
        return default
    value = str(rule[key]).removesuffix("_candidate").replace("cause_confirmation", "confirmation")
    try:
        return kind(value)
    except ValueError:
        words = " ".join(item.value for item in kind)
        raise ValueError(f"{key}: {rule[key]} is none of {words}") from None


def _truth(rule: Mapping[str, object], key: str) -> bool | None:
    value = rule.get(key)
    if value is not None and not isinstance(value, bool):
        raise ValueError(f"{key}: must be true or false")
    return value


def _seconds(rule: Mapping[str, object], key: str) -> float | None:
    value = rule.get(key)
    if value is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", str(value).strip())
    if found is None:
        raise ValueError(f"{key}: {value} is no length of time; write 600s, 10m or 2h")
    return float(found[1]) * _UNITS[found[2]]


def _number(rule: Mapping[str, object], key: str) -> float | None:
    value = rule.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{key}: {value} is no number")  # noqa: TRY004  # as above
    return float(value)
