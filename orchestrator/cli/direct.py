"""A run reached by its tmux session on a target, with no daemon and no inventory in between.

Owns a short connection of its own for `logs`, `stop` and `diagnose` with --target. A daemon that
watches the same run is left alone and sees what happens.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from orchestrator.clock import SystemClock
from orchestrator.core.command import Command
from orchestrator.core.contract import EXIT_FILE, LOG_FILE
from orchestrator.core.errors import LaunchError, NoSuchRun, RemoteCommandFailed
from orchestrator.core.model import Target
from orchestrator.core.parse.tmux import PANES_FORMAT, Session, parse_sessions
from orchestrator.core.runtimes import tmux_words
from orchestrator.transport.base import Transport
from orchestrator.transport.pool import Pool

T = TypeVar("T")

ALL_LINES = "+1"

_FOLLOW = """
exec 3<&0
tail -n "$1" -f -- "$2" & tail=$!
{ while [ ! -e "$3" ]; do sleep 0.5; done; sleep 1; kill "$tail"; } >/dev/null 2>&1 & ended=$!
{ cat <&3; kill "$tail"; } >/dev/null 2>&1 & left=$!
wait "$tail" 2>/dev/null
kill "$ended" "$left" 2>/dev/null
exit 0
"""
"""Ends when the attempt has, or when we close its stdin: a runtime passes no signal on."""


@asynccontextmanager
async def way_to(target: Target) -> AsyncIterator[Transport]:
    """The transport of a target, over a connection that ends with the block."""
    pool = Pool()
    try:
        yield pool.transport(target)
    finally:
        await pool.close()


def on_target(target: Target, work: Callable[[Transport], Awaitable[T]]) -> T:
    """Do `work` with the target's transport, in a loop of its own."""

    async def connected() -> T:
        async with way_to(target) as transport:
            return await work(transport)

    return asyncio.run(connected())


async def sessions(transport: Transport, target: Target) -> tuple[Session, ...]:
    """The tmux sessions there; none where no server runs."""
    words = (*tmux_words(target.tmux_socket), "list-panes", "-a", "-F", PANES_FORMAT)
    done = await transport.run(Command(argv=words))
    complaint = done.stderr.decode("utf-8", "replace")
    if done.exit_status == 127 or "not found" in complaint:
        raise RemoteCommandFailed(
            f"{target.name}: there is no tmux: {complaint.strip()}.",
            target=target.name,
            command="tmux",
            exit_status=done.exit_status,
            remedy="Install it there (apt-get install tmux).",
        )
    return parse_sessions(done.stdout.decode("utf-8", "replace"))


async def session_named(transport: Transport, target: Target, words: str) -> Session:
    """The session of that name, or of the run of that id; NoSuchRun names those there are."""
    found = await sessions(transport, target)
    for one in found:
        if words in {one.name, one.run}:
            return one
    there = ", ".join(f"{one.name} ({one.run or 'not of orch'})" for one in found) or "none"
    raise NoSuchRun(
        f"{target.name} has no tmux session {words}. It has {there}.",
        remedy=f"Give a session or a run of these; a file there: orch cp {target.name}:PATH .",
    )


async def output(
    transport: Transport, target: Target, session: Session, *, lines: int | None, follow: bool
) -> AsyncIterator[bytes]:
    """What the session's program wrote: its log where orch started it, else what tmux still has."""
    count = ALL_LINES if lines is None else str(lines)
    if session.attempt_dir is not None:
        log, record = (f"{session.attempt_dir}/{name}" for name in (LOG_FILE, EXIT_FILE))
        argv: tuple[str, ...] = ("tail", "-n", count, "--", log)
        if follow:
            argv = ("/bin/sh", "-c", _FOLLOW, "sh", count, log, record)
    elif follow:
        raise LaunchError(
            f"orch did not start the session {session.name} on {target.name}: there is no log.",
            remedy=f"Leave -f out to see what tmux has, or `orch adopt {target.name} "
            f"{session.name}` to follow it from now on.",
        )
    else:
        capture = ("capture-pane", "-p", "-J", "-S", "-", "-t", f"={session.name}:")
        argv = (*tmux_words(target.tmux_socket), *capture)
    channel = await transport.open(Command(argv=argv))
    try:
        while chunk := await channel.read():
            yield chunk
        if await channel.wait():
            raise RemoteCommandFailed(
                f"{target.name}: the output cannot be read: {channel.stderr_tail().strip()}.",
                target=target.name,
                command=str(argv[0]),
                exit_status=1,
            )
    finally:
        await channel.close()


async def end_run(target: Target, session: Session, grace_s: float) -> dict[str, Any]:
    """End a session's run and what is left of it, as the daemon would; its answer."""
    from orchestrator.link.link import Link

    if session.run is None or session.attempt_dir is None:
        raise LaunchError(
            f"orch did not start the session {session.name} on {target.name}.",
            remedy=f"orch exec {target.name} -- tmux kill-session -t {session.name}",
        )
    clock = SystemClock()
    async with way_to(target) as transport:
        link = Link(target, transport, clock, f"direct.{clock.new_id()}")
        try:
            await link.start()
            answer: dict[str, Any] = await link.call(
                "end",
                timeout_s=grace_s + 60.0,
                run=session.run,
                uid=session.uid,
                session=session.name,
                socket=target.tmux_socket,
                attempt_dir=session.attempt_dir,
                grace_s=grace_s,
            )
        finally:
            await link.close()
    return answer


def write_raw(chunk: bytes) -> None:
    """Bytes as they are, on stdout."""
    sys.stdout.buffer.write(chunk)
    sys.stdout.buffer.flush()
