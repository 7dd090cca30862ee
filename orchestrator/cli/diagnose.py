"""diagnose: what a log says went wrong, read here, with no daemon."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from orchestrator.cli import output
from orchestrator.cli.verdict import verdict_lines
from orchestrator.core.detect.engine import Engine
from orchestrator.core.errors import UsageError
from orchestrator.core.findings import Verdict, verdict_json

CRASH_FOUND = 3
PIECE_BYTES = 4 << 20


def diagnose(options: argparse.Namespace) -> int:
    """Print the verdict of each log; 3 where one of them tells of a crash."""
    if options.json and len(options.files) > 1:
        raise UsageError("--json prints one document; give --jsonl for several files.")
    crashed = False
    for file in options.files:
        verdict = _verdict(file)
        crashed = crashed or verdict.crash
        if options.json:
            output.print_json(verdict_json(verdict, file))
        elif options.jsonl:
            output.print_json_line(verdict_json(verdict, file))
        else:
            output.say(*_lines(verdict, file, several=len(options.files) > 1))
    return CRASH_FOUND if crashed else 0


def _verdict(file: str) -> Verdict:
    engine = Engine()
    for piece in chunks_of(file):
        engine.feed(piece)
    return engine.close()


def chunks_of(file: str) -> Iterator[bytes]:
    """A log piece by piece, `-` being standard input; UsageError where it cannot be read."""
    if file == "-":
        yield from _pieces(sys.stdin.buffer)
        return
    try:
        with Path(file).open("rb") as log:
            yield from _pieces(log)
    except OSError as error:
        raise UsageError(
            f"{file}: {error.strerror}.",
            remedy="Give a log, or - for stdin; of a run `orch explain RUN` tells.",
        ) from error


def _pieces(stream: BinaryIO) -> Iterator[bytes]:
    while piece := stream.read(PIECE_BYTES):
        yield piece


def _lines(verdict: Verdict, file: str, *, several: bool) -> list[str]:
    lines = [f"{file}:"] if several else []
    if not verdict.signature:
        return [*lines, f"{verdict.verdict}: no crash found"]
    shown: dict[str, Any] = verdict.to_json()
    lines += [f"{verdict.verdict}, line {verdict.line}"]
    lines += verdict_lines(shown, same_as=None, incident=None)
    if verdict.evidence:
        lines += ["  lines", *(f"    {line}" for line in verdict.evidence)]
    return lines
