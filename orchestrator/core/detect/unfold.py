"""A stack written into one line with escaped line ends -> its lines.

Owns the reading of loggers that print one JSON object a line, and of texts printed as literals.
Whether such a stack ended anything is not its question.
"""

import json
import re
from collections.abc import Iterator, Mapping

from orchestrator.core.parse.stack_lines import CHAIN_CAUSE

STACK = "Traceback (most recent call last)"
STACK_KEY = '"exc_type"'
"""In the lines of loggers that write a stack as data (structlog's dict_tracebacks)."""
MAX_DEPTH = 4
_LEVELS = ("level", "levelname", "severity", "log_level", "lvl")
_WORDS = ("message", "msg", "event", "text")
_DATA = ("prompt", "completion", "input", "output", "sample", "content", "response", "answer")
"""Parts of a key's name under which a text is what the program works on, not what befell it."""
_SPOKEN = re.compile(
    r"\b(?:prompt|completion|response|answer|sample)s?\W{0,3}[=:] ?[\"'`]", re.IGNORECASE
)
"""What a model was told or said, written into a line."""
_DOCKERS = re.compile(r'\{"log": ?"')


def unfold(text: str) -> list[str]:
    """The lines that the line holds; itself alone where it holds no escaped stack."""
    if _DOCKERS.match(text) and (line := _from_docker(text)) is not None:
        return unfold(line)
    position = text.find(STACK)
    if position < 0 and STACK_KEY in text:
        return _from_json(text[max(0, text.find("{")) :]) or [text]
    if position < 0 or "\\n" not in text:
        return [text]
    start = text.find("{", 0, position)
    if start >= 0 and (found := _from_json(text[start:])) is not None:
        return found
    before, stack = text[:position], text[position:]
    if _SPOKEN.search(before):
        return [f"text of {len(text)} characters"]
    end = stack.find(before[-1]) if before[-1:] in ('"', "'") else -1
    while end > 0 and stack[end - 1] == "\\":
        end = stack.find(before[-1], end + 1)
    stack = stack[:end] if end > 0 else stack
    lines = stack.replace("\\n", "\n").replace('\\"', '"').replace("\\'", "'").split("\n")
    return [before, *lines] if before.strip("\"' ") else lines


def _from_docker(text: str) -> str | None:
    """The line that docker's json-file driver stored."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return None
    line = record.get("log") if isinstance(record, dict) else None
    return line.rstrip("\r\n") if isinstance(line, str) else None


def _from_json(text: str) -> list[str] | None:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    found = next(_stacks(record, 0), None)
    if found is None:
        return None
    key, stack = found
    words = next((str(record[name]) for name in _WORDS if name in record and name != key), "")
    level = next((str(record[name]).upper() for name in _LEVELS if name in record), "")
    head = f"{level}: {words.splitlines()[0] if words else key}"
    if any(word in key.lower() for word in _DATA):
        return [f"{key}: text of {len(stack)} characters"]
    return [head if level else head[2:], *stack.splitlines()]


def _stacks(record: Mapping[str, object], depth: int) -> Iterator[tuple[str, str]]:
    for key, value in record.items():
        if isinstance(value, str) and STACK in value:
            yield key, value
        elif isinstance(value, list) and (stack := _written_out(value)):
            yield key, stack
        elif isinstance(value, dict) and depth < MAX_DEPTH:
            yield from _stacks(value, depth + 1)


def _written_out(stacks: list[object]) -> str:
    """Stacks given as data, the raised exception's first and its causes behind it, as Python prints."""
    texts = []
    for stack in reversed(stacks):
        if not isinstance(stack, dict) or "exc_type" not in stack:
            return ""
        frames = stack.get("frames")
        lines = [f"{STACK}:"]
        for frame in frames if isinstance(frames, list) else []:
            if isinstance(frame, dict):
                place = f'"{frame.get("filename")}", line {frame.get("lineno")}'
                lines.append(f"  File {place}, in {frame.get('name')}")
        texts.append("\n".join([*lines, f"{stack['exc_type']}: {stack.get('exc_value', '')}"]))
    return f"\n\n{CHAIN_CAUSE} of the following exception:\n\n".join(texts)
