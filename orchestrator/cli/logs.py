"""logs: what a run wrote, from its first byte or its last lines, and on as it writes."""

import argparse
import codecs
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from orchestrator.api.client import Client
from orchestrator.cli import output
from orchestrator.cli.follow import Follower, Lines, PlainScreen, matcher, watch
from orchestrator.cli.reach import connect
from orchestrator.core.errors import UsageError

if TYPE_CHECKING:
    from orchestrator.transport.base import Transport

PIECE_BYTES = 1 << 20


def logs(options: argparse.Namespace) -> int:
    """Print a run's log; with -f go on until the run ends."""
    _check(options)
    try:
        wanted = matcher(options.grep, options.rank)
    except ValueError as error:
        raise UsageError(f"--grep {options.grep}: {error}.") from error
    if options.target is not None:
        return _direct(options, wanted)
    client = connect(options)
    if options.follow:
        return _follow(options, client)
    pieces = _pieces(client, options)
    if options.raw:
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
        return 0
    lines = Lines(colour=output.is_coloured(sys.stdout))
    for line in _lines(pieces, lines):
        if wanted(line):
            print(line)
    return 0


def _check(options: argparse.Namespace) -> None:
    """Refuse options that contradict each other."""
    if options.raw and (options.grep or options.follow or options.rank is not None):
        raise UsageError("--raw gives stored bytes as they are: without -f, --grep and --rank.")
    if options.since is not None and options.lines is not None:
        raise UsageError("-n counts from the end and --since from a time: give one of them.")
    if options.jsonl and not options.follow:
        raise UsageError(
            "--jsonl gives messages as they come.", remedy="Add -f: orch logs -f --jsonl RUN"
        )


def _pieces(client: Client, options: argparse.Namespace) -> Iterator[bytes]:
    """The stored bytes, a piece at a time; those that come meanwhile are left out."""
    part = client.log(
        options.run,
        attempt=options.attempt,
        tail=options.lines,
        since=options.since,
        size=PIECE_BYTES,
    )
    end = part.size
    while part.content:
        yield part.content
        if part.end >= end:
            return
        part = client.log(
            options.run,
            attempt=part.attempt,
            offset=part.end,
            size=min(PIECE_BYTES, end - part.end),
        )


def _lines(pieces: Iterator[bytes], lines: Lines) -> Iterator[str]:
    rest = b""
    for piece in pieces:
        # A character of several bytes may lie across two pieces; a line's end never does.
        whole, newline, rest = (rest + piece).rpartition(b"\n")
        yield from lines.feed((whole + newline).decode("utf-8", "replace"))
    yield from lines.feed(rest.decode("utf-8", "replace"))
    yield from lines.close()


def _follow(options: argparse.Namespace, client: Client) -> int:
    if options.attempt is not None:
        raise UsageError("-f follows the newest attempt: leave --attempt out.")
    follower = Follower(options, client, options.run)
    if options.jsonl:
        for message in follower.messages(tail=options.lines, since=options.since):
            output.print_json_line(message)
        return 0
    wanted = matcher(options.grep, options.rank)
    watch(follower, PlainScreen(), tail=options.lines, since=options.since, wanted=wanted)
    return 0


def _direct(options: argparse.Namespace, wanted: Callable[[str], bool]) -> int:
    """The log as it is on the target, with no daemon; `RUN` is a session or a run there."""
    from orchestrator.cli import direct
    from orchestrator.cli.targets import target_of

    if options.jsonl or options.attempt is not None or options.since is not None:
        raise UsageError("--jsonl, --attempt and --since are for a run that the daemon knows.")
    target = target_of(options, options.target)
    lines = Lines(colour=output.is_coloured(sys.stdout))
    decoder = codecs.getincrementaldecoder("utf-8")("replace")

    async def read(transport: "Transport") -> None:
        session = await direct.session_named(transport, target, options.run)
        parts = direct.output(
            transport, target, session, lines=options.lines, follow=options.follow
        )
        async for chunk in parts:
            if options.raw:
                direct.write_raw(chunk)
                continue
            _print(lines.feed(decoder.decode(chunk)), wanted)

    direct.on_target(target, read)
    _print(lines.close(), wanted)
    return 0


def _print(lines: list[str], wanted: Callable[[str], bool]) -> None:
    for line in lines:
        if wanted(line):
            print(line, flush=True)
