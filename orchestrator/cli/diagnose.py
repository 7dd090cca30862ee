"""diagnose: what a log says went wrong, read here, with no daemon.

The rules of the inventory count, where there is one; a broken one hinders nobody.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from io import BufferedReader
from pathlib import Path
from typing import Any, cast

from orchestrator.api.location import find_inventory
from orchestrator.cli import output
from orchestrator.cli.packed import pieces
from orchestrator.cli.verdict import verdict_lines
from orchestrator.core.detect.engine import Engine
from orchestrator.core.detect.signatures import Signature
from orchestrator.core.errors import OrchError, UsageError
from orchestrator.core.findings import Verdict, verdict_json

CRASH_FOUND = 3
PIECE_BYTES = 4 << 20
SAMPLE_BYTES = 64 << 10
MOST_STRANGE = 0.1
"""Of the letters of a text; archives and images have a third and more."""
_OF_TEXT = "\t\n\r\b\x1b\a\f"


def diagnose(options: argparse.Namespace) -> int:
    """Print the verdict of each log; 3 where one of them tells of a crash."""
    if options.json and len(options.files) > 1:
        raise UsageError("--json prints one document; give --jsonl for several files.")
    rules = _rules(inventory_path(options))
    crashed = False
    for file in options.files:
        verdict, remark = _verdict(file, rules)
        crashed = crashed or verdict.crash
        if options.json:
            output.print_json(verdict_json(verdict, file))
        elif options.jsonl:
            output.print_json_line(verdict_json(verdict, file))
        else:
            output.say(*_lines(verdict, file, remark, several=len(options.files) > 1))
        if remark and (options.json or options.jsonl):
            output.note(f"{file}: {remark}")
    return CRASH_FOUND if crashed else 0


def inventory_path(options: argparse.Namespace) -> Path | None:
    """The inventory; None where there is none and none was named: built-in rules are all."""
    try:
        return find_inventory(getattr(options, "config", None), os.environ, Path.cwd())
    except UsageError:
        if getattr(options, "config", None) or os.environ.get("ORCH_CONFIG"):
            raise
        return None


def _rules(path: Path | None) -> list[Signature]:
    """What the inventory's rules look for; none where it has faults, which are told."""
    if path is None:
        return []
    from orchestrator.core.detect.proving import read_rule
    from orchestrator.daemon.inventory_reading import read_inventory  # loads pydantic

    try:
        return [read_rule(rule).signature for rule in read_inventory(path.resolve()).rules]
    except OrchError as error:
        output.note(f"without the rules of {path}, which has faults: {error}")
        return []


def _verdict(file: str, rules: Sequence[Signature]) -> tuple[Verdict, str]:
    """How it ended, and what kind of file it is where that is none of a log's; else nothing."""
    engine = Engine(rules)
    first = b""
    for piece in chunks_of(file):
        first = first or piece[:SAMPLE_BYTES]
        engine.feed(piece)
    verdict = engine.close()
    if not first:
        return verdict, "the file is empty"
    return verdict, "" if verdict.crash or _is_text(first) else "this is no text log"


def _is_text(sample: bytes) -> bool:
    """Whether nearly all of it are letters; what a terminal was told and a torn one are allowed."""
    letters = sample.decode("utf-8", "replace")
    strange = sum(
        letter == "\ufffd" or (letter < " " and letter not in _OF_TEXT) for letter in letters
    )
    return strange <= len(letters) * MOST_STRANGE


def chunks_of(file: str) -> Iterator[bytes]:
    """A log piece by piece, `-` being standard input; UsageError where it cannot be read."""
    if file == "-":
        yield from pieces("stdin", cast("BufferedReader", sys.stdin.buffer), PIECE_BYTES)
        return
    try:
        with Path(file).open("rb") as log:
            yield from pieces(file, log, PIECE_BYTES)
    except OSError as error:
        raise UsageError(
            f"{file}: {error.strerror}.",
            remedy="Give a log, or - for stdin; of a run `orch explain RUN` tells.",
        ) from error


def _lines(verdict: Verdict, file: str, remark: str, *, several: bool) -> list[str]:
    lines = [f"{file}:"] if several else []
    if not verdict.signature:
        return [*lines, f"{verdict.verdict}: {'; '.join(filter(None, ('no crash found', remark)))}"]
    shown: dict[str, Any] = verdict.to_json()
    lines += [f"{verdict.verdict}, line {verdict.line}"]
    lines += verdict_lines(shown, same_as=None, incident=None)
    if verdict.evidence:
        lines += ["  lines", *(f"    {line}" for line in verdict.evidence)]
    return lines
