"""torchrun's failure table: text -> which rank ended how, and which was first.

Owns the reading of `ChildFailedError`'s message in its old and new forms.
"""

import re
from dataclasses import dataclass

from orchestrator.core.findings import ExceptionText, Frame
from orchestrator.core.parse.stack_lines import exception_of, frame_of

_FIELD = re.compile(
    r"^\s+(?P<name>time|host|rank|exitcode|error_file|traceback|msg)\s*:\s?(?P<value>.*)$"
)
_ENTRY = re.compile(r"^\s*\[\d+\]:\s*$")
_ROOT = re.compile(r"^\s*Root Cause\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFailure:
    """One row of the table."""

    rank: int | None
    exit_code: int | None
    root: bool
    text: str = ""
    """The traceback's or message's own lines, where the worker recorded one."""
    exception: ExceptionText | None = None
    frames: tuple[Frame, ...] = ()


def read_table(lines: list[str]) -> list[RankFailure]:
    """The rows of the table in their order; empty where there is none."""
    rows: list[RankFailure] = []
    entry: list[str] | None = None
    root = entry_root = False
    for line in lines:
        if _ENTRY.match(line):
            rows += _row(entry, root=entry_root)
            entry, entry_root = [], root
        elif _ROOT.match(line):
            rows += _row(entry, root=entry_root)
            entry, root = None, True
        elif re.match(r"^\s*(?:Other Failures|Failures):", line):
            rows += _row(entry, root=entry_root)
            entry, root = None, False
        elif entry is not None:
            entry.append(line)
        elif _FIELD.match(line):
            entry, entry_root = [line], root
    return rows + _row(entry, root=entry_root)


def _row(lines: list[str] | None, *, root: bool) -> list[RankFailure]:
    if not lines:
        return []
    values: dict[str, str] = {}
    inside: list[str] = []
    for line in lines:
        if found := _FIELD.match(line):
            values[found["name"]] = found["value"]
            if found["name"] in ("traceback", "msg"):
                inside = [found["value"]]
        elif inside and not re.match(r"^\s*[=*-]{5,}\s*$", line):
            inside.append(line)
    rank = re.match(r"\d+", values.get("rank", ""))
    code = re.match(r"-?\d+", values.get("exitcode", ""))
    frames = tuple(frame for line in inside if (frame := frame_of(line)) is not None)
    exception = None
    if frames:
        named = [exception_of(line[2:]) for line in inside[1:] if re.match(r"^  \S", line)]
        exception = next((item for item in named if item is not None), None)
    return [
        RankFailure(
            rank=int(rank.group()) if rank else None,
            exit_code=int(code.group()) if code else None,
            root=root,
            text="\n".join(inside).strip(),
            exception=exception,
            frames=frames,
        )
    ]
