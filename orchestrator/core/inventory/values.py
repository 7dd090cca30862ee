"""What one value of an inventory may hold, whichever key it stands under: text, a duration, a path.

Each kind refuses a value in words of its own. Which key takes which kind is in shape.py, and how
the parts fit together in names.py.
"""

import re
from typing import Annotated

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainValidator,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from orchestrator.core.inventory.document import WrittenFloat, WrittenInt
from orchestrator.core.inventory.units import parse_duration, parse_hours, parse_size
from orchestrator.core.patterns import read_pattern

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_SPECIFIER = re.compile(r"\s*(~=|===?|!=|<=|>=|<|>)\s*[\w.*+!-]+\s*")
_INSIDE = re.compile(r"(\./+)*(?!\.{1,2}(/|$))[^/\0]+(/(?!\.{1,2}(/|$))[^/\0]+)*/?")
_CONDITION = r"\s*\w+\s*(>=|<=|==|<|>)\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*"
_EXPECTATION = re.compile(f"{_CONDITION}:{_CONDITION}")

TAKEN_BEFORE = "taken before"
"""Context of a validation that asks no rule which an older orch did not have."""


def refuse(sentence: str) -> PydanticCustomError:
    """The error with which a validator refuses a value in its own words."""
    return PydanticCustomError("said", "{sentence}", {"sentence": sentence})


def shown(value: object) -> str:
    """A value as a message quotes it, cut when it is long."""
    if isinstance(value, WrittenInt | WrittenFloat):
        return value.written
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _text(value: object) -> str:
    """Text as it is written: a container 200 and a variable 1e-3 need no quotes."""
    if isinstance(value, WrittenInt | WrittenFloat):
        return value.written
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        raise refuse(f'must be text; write "{shown(value)}" in quotes, or 1 or 0')
    raise refuse(f"must be text, not {shown(value)}")


def _inside(value: object, info: ValidationInfo) -> str:
    text = _text(value)
    if info.context == TAKEN_BEFORE:
        return text
    if not _INSIDE.fullmatch(text):
        raise refuse(f"must be a path inside the package, without . and .., not {shown(text)}")
    return re.sub(r"^(\./+)+", "", text).rstrip("/")


def _matching(pattern: re.Pattern[str], sentence: str) -> BeforeValidator:
    def check(value: object) -> str:
        text = _text(value)
        if not pattern.fullmatch(text):
            raise refuse(sentence.format(shown(text)))
        return text

    return BeforeValidator(check)


def _command(value: object) -> str | list[str]:
    if isinstance(value, str) and value.strip():
        return value
    if isinstance(value, list) and value:
        return [_text(word) for word in value]
    raise refuse(f"must be a command line or a list of words, not {shown(value)}")


def _duration(value: object) -> float:
    seconds = parse_duration(value) if isinstance(value, str) else None
    if seconds is None:
        raise refuse(f"must be a duration such as 30s, 15m, 6h or 1h30m, not {shown(value)}")
    return seconds


def _size(value: object) -> int:
    size = parse_size(value) if isinstance(value, str) else None
    if size is None:
        raise refuse(f"must be a size such as 500MB or 50GiB, not {shown(value)}")
    return size


def _metric(value: object) -> str:
    text = _text(value)
    try:
        pattern = read_pattern(text)
    except ValueError as error:
        raise refuse(str(error)) from error
    if "value" not in pattern.names:
        raise refuse("has no group named value; write (?P<value>...) around the number")
    return text


def _specifier(value: object) -> str:
    text = _text(value)
    if not all(_SPECIFIER.fullmatch(part) for part in text.split(",")):
        raise refuse(f"must be a version specifier such as '>=2.10' or '>=2.10,<3', not {text!r}")
    return text


def _apart(names: list[str], info: ValidationInfo) -> list[str]:
    """Each folder becomes a link of its own in a release: none may lie in another."""
    if info.context == TAKEN_BEFORE:
        return names
    for at, name in enumerate(names):
        inner = next((one for one in names[at + 1 :] if f"{one}/".startswith(f"{name}/")), None)
        inner = inner or next((one for one in names[at + 1 :] if name.startswith(f"{one}/")), None)
        if inner == name:
            raise refuse(f"has {name!r} twice")
        if inner is not None:
            raise refuse(f"{name!r} and {inner!r} lie one in the other; name the outer one alone")
    in_venv = next((one for one in names if f"{one}/".startswith(".venv/")), None)
    if in_venv is not None:
        raise refuse(f"{in_venv!r}: .venv is where the environment that `setup` makes is linked")
    return names


def _quiet_hours(value: object) -> str:
    if not isinstance(value, str) or parse_hours(value) is None:
        raise refuse(f"must be two times of day such as 22:00-07:00, not {shown(value)}")
    return value


_STRING = WithJsonSchema({"type": "string"})
QuietHours = Annotated[str, BeforeValidator(_quiet_hours), _STRING]

NOTHING_IS_A_MAPPING = BeforeValidator(lambda value: {} if value is None else value)
NOTHING_IS_A_LIST = BeforeValidator(lambda value: [] if value is None else value)
"""A mapping or list whose lines are all commented out reads as nothing."""

Text = Annotated[
    str, BeforeValidator(_text), WithJsonSchema({"type": ["string", "integer", "number"]})
]
Variable = Annotated[
    str,
    _matching(_VARIABLE, "must be the name of an environment variable; no value belongs here"),
    WithJsonSchema({"type": "string", "pattern": f"^{_VARIABLE.pattern}$"}),
]
Name = Annotated[
    str,
    _matching(
        _NAME, "{} is no name; use letters, digits, '_', '.', '-' and begin with a letter or digit"
    ),
]
Session = Annotated[
    str,
    _matching(
        re.compile(r"[^.:\s]+"), "{} holds '.', ':' or a space, which tmux forbids in a name"
    ),
    WithJsonSchema({"type": "string", "pattern": r"^[^.:\s]+$"}),
]
Command = Annotated[
    str | list[str],
    PlainValidator(_command),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "minLength": 1},
                {"type": "array", "items": {"type": "string"}, "minItems": 1},
            ]
        }
    ),
]
Duration = Annotated[
    float,
    PlainValidator(_duration),
    WithJsonSchema({"type": "string", "pattern": r"^(\d+(\.\d+)?(ms|s|m|h|d))+$"}),
]
Size = Annotated[
    int,
    PlainValidator(_size),
    WithJsonSchema({"type": "string", "pattern": r"^\d+(\.\d+)? ?([KMGT]i?)?B$"}),
]
Metric = Annotated[str, PlainValidator(_metric), _STRING]
Specifier = Annotated[str, PlainValidator(_specifier), _STRING]
Expectation = Annotated[
    str,
    _matching(_EXPECTATION, "must read like 'step>=1000: loss<6', not {}"),
    _STRING,
]
Port = Annotated[int, Field(ge=1, le=65535)]
AbsolutePath = Annotated[
    str,
    _matching(re.compile(r"/.*"), "must be an absolute path on the target, not {}"),
    WithJsonSchema({"type": "string", "pattern": "^/"}),
]
InsidePath = Annotated[
    str,
    BeforeValidator(_inside),
    _STRING,
]
SharedFolders = Annotated[list[InsidePath], AfterValidator(_apart)]
PositiveInt = Annotated[int, Field(ge=1)]
