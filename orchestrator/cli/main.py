"""Words -> command module -> exit code; the one place where an error becomes text."""

import argparse
import contextlib
import importlib
import io
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.cli.parser import build_parser, parse
from orchestrator.cli.reach import StartFailed
from orchestrator.core.errors import (
    ApiError,
    InventoryError,
    OrchError,
    PreflightRefused,
    UsageError,
)

INTERRUPTED = 130
BROKEN_PIPE = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    _open_what_is_closed()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that has no such letter gets `?`
    try:
        try:
            return run(parse(sys.argv[1:] if argv is None else argv))
        finally:  # --help leaves by an exception
            sys.stdout.flush()  # a reader that has gone is to be met here, not at Python's end
    except OrchError as error:
        complain(error)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _drop_stdout()  # the reader has gone
        return BROKEN_PIPE
    except OSError as error:
        _drop_stdout()
        complain(OrchError(f"{error.filename or 'the output'}: {error.strerror or error}"))
        return OrchError.exit_code


def _open_what_is_closed() -> None:
    """A program may be started without stdout or stderr (`>&-`): Python has None for them then."""
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


def _drop_stdout() -> None:
    """Python must not complain again as it closes stdout."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run(options: argparse.Namespace) -> int:
    """Run the command that the options name."""
    if not options.module:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            build_parser().print_help()
            return UsageError.exit_code
        options.module, options.function = "enter", "tui"
    module = importlib.import_module(f"orchestrator.cli.{options.module}")
    return int(getattr(module, options.function)(options))


def complain(error: OrchError) -> None:
    """Print an error on stderr: what, where, and the remedy."""
    from orchestrator.cli.output import harmless, inner_lines_set_in

    for line in lines_of(error):
        print(inner_lines_set_in(harmless(line)), file=sys.stderr)


def lines_of(error: OrchError) -> list[str]:
    """An error as lines; faults of an inventory stand alone, so that an editor can jump to them."""
    if isinstance(error, StartFailed) and error.words:
        return error.words.splitlines()
    from orchestrator.cli.check import check_lines

    problems: tuple[object, ...] = ()
    refused: list[Mapping[str, Any]] = []
    if isinstance(error, InventoryError | ApiError):
        problems = error.problems
    if isinstance(error, PreflightRefused):
        refused = [one._asdict() for one in error.checks if not one.ok and one.critical]
    if isinstance(error, ApiError):
        refused = [one for one in error.checks if not one["ok"] and one["critical"]]
    if problems:
        count = "one fault" if len(problems) == 1 else f"{len(problems)} faults"
        return [*map(str, problems), f"orch: the inventory has {count}; nothing was touched"]
    return [*(check_lines([dict(check) for check in refused])), f"orch: {error}"]
