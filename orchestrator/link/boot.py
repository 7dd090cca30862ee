"""From a transport to a probe that said hello: find Python, push the zipapp, start it.

Owns the first seconds of a link: one channel, one command. Lines that a login shell or a
runtime prints before are skipped, up to a limit.
"""

import asyncio
import functools
from dataclasses import dataclass, replace
from pathlib import Path

from orchestrator.core.errors import RemoteCommandFailed, Unreachable
from orchestrator.core.model import Target
from orchestrator.core.runtimes import no_way_in
from orchestrator.link.lines import Lines
from orchestrator.link.package import ProbePackage
from orchestrator.link.shapes import require_frame
from orchestrator.probe import receive
from orchestrator.probe.frames import VERSION, BadFrame, Frame, decode
from orchestrator.transport.base import Channel, Transport
from orchestrator.transport.python import PYTHONS, python_command
from orchestrator.transport.running import printable

NOISE_LIMIT_BYTES = 256 * 1024
ANSWER_FIRST_S = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long each step of a start may take, in seconds."""

    open_s: float = 60.0
    """A connection through a chain of jumps included."""
    answer_s: float = 30.0
    push_s: float = 120.0

    def after(self, failures: int) -> "Patience":
        """For the next attempt: the first ones wait for an answer less long.

        A way into a container that was just being stopped hangs, and is not worth half a minute;
        a host that is that slow gets its half minute at the third attempt.
        """
        return replace(self, answer_s=min(self.answer_s, ANSWER_FIRST_S * 2**failures))


class NoPython(RemoteCommandFailed):
    """The target has no Python that the probe can run on; the plain shell is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Booted:
    """A probe that said hello, and the stream that its frames come on."""

    channel: Channel
    lines: Lines
    hello: Frame


async def boot(
    target: Target,
    transport: Transport,
    package: ProbePackage,
    *,
    generation: int,
    key: str,
    bulk: bool = False,
    patience: Patience = Patience(),
) -> Booted:
    """Start a probe on the target, sending it first where the target lacks this one.

    `key` names the daemon: of the probes with one key, that of the highest `generation` lives.
    TargetError where it does not come to a hello: Unreachable, NoPython, or a refused key.
    """
    pythons = (target.python,) if target.python else PYTHONS
    words = (package.digest, str(len(package.content)), str(generation), key)
    command = python_command(_receiver(), words, pythons)
    try:
        async with asyncio.timeout(patience.open_s):
            channel = await transport.open(command, bulk=bulk, lasting=not bulk)
    except TimeoutError as exc:
        raise _silent(target, "no connection", patience.open_s) from exc
    try:
        return await _handshake(target, channel, package, patience)
    except BaseException:
        await channel.close()
        raise


@functools.cache
def _receiver() -> str:
    return Path(receive.__file__).read_text()


async def _handshake(
    target: Target, channel: Channel, package: ProbePackage, patience: Patience
) -> Booted:
    lines = Lines(channel)
    step, within_s = "the shell there gives no answer", patience.answer_s
    try:
        async with asyncio.timeout(within_s):
            word = await _answer(target, channel, lines)
        if word == "need":
            step, within_s = "the probe could not be sent", patience.push_s
            async with asyncio.timeout(within_s):
                await channel.write(package.content)
                word = await _answer(target, channel, lines)
        if word != "have":
            raise _refused(target, word)
        step, within_s = "the probe says no hello", patience.answer_s
        async with asyncio.timeout(within_s):
            hello = await _hello(target, channel, lines)
    except TimeoutError as exc:
        raise _silent(target, step, within_s) from exc
    return Booted(channel=channel, lines=lines, hello=hello)


async def _answer(target: Target, channel: Channel, lines: Lines) -> str:
    """What receive.py or the shell said, without its mark."""
    while True:
        line = await _line(target, channel, lines)
        if line.startswith(b"orch "):
            return printable(line[5:300].decode("utf-8", "replace")).strip()


async def _hello(target: Target, channel: Channel, lines: Lines) -> Frame:
    while True:
        line = await _line(target, channel, lines)
        try:
            frame = decode(line)
        except BadFrame:
            continue  # a sitecustomize or a wrapper may print before the probe does
        if frame["kind"] != "hello" or frame.get("v") != VERSION:
            raise Unreachable(
                f"{target.name}: what answers is no probe of version {VERSION}.",
                target=target.name,
                remedy="Remove ~/.local/share/orch/probe there and try again.",
            )
        return _checked(target, frame, len(line))


def _checked(target: Target, hello: Frame, num_bytes: int) -> Frame:
    try:
        require_frame(hello, num_bytes)
    except BadFrame as exc:
        raise Unreachable(
            f"{target.name}: the probe introduces itself by {printable(str(exc))}.",
            target=target.name,
            remedy="See who else could speak for the probe there.",
        ) from exc
    return hello


async def _line(target: Target, channel: Channel, lines: Lines) -> bytes:
    try:
        line = await lines.next()
    except BadFrame:
        line = b""
    if line is None:
        raise await _ended(target, channel)
    if lines.num_bytes > NOISE_LIMIT_BYTES:
        raise Unreachable(
            f"{target.name}: more than {NOISE_LIMIT_BYTES >> 10} KiB came before a hello.",
            target=target.name,
            remedy="Look at what the login shell there prints (.bashrc).",
        )
    return line


async def _ended(target: Target, channel: Channel) -> Unreachable:
    try:
        async with asyncio.timeout(5.0):
            status = await channel.wait()
    except TimeoutError:
        status = None
    tail = channel.stderr_tail().strip()
    how = "" if status is None else f" with exit status {status}"
    if shut := no_way_in(target, tail):
        why, remedy = shut
        return Unreachable(f"{target.name}: {why}", target=target.name, remedy=remedy)
    inside = f" Is container {target.container} running?" if target.runtime != "none" else ""
    return Unreachable(
        f"{target.name}: the way in ended{how} before the probe said hello: "
        f"{tail or 'nothing was printed'}.",
        target=target.name,
        remedy=f"Try `orch exec {target.name} -- true`.{inside}",
    )


def _refused(target: Target, word: str) -> RemoteCommandFailed:
    if word == "no-python":
        tried = target.python or ", ".join(PYTHONS)
        return NoPython(
            f"{target.name}: there is no Python 3.10 or newer (tried {tried}).",
            target=target.name,
            command="python3",
            exit_status=None,
            remedy=f"Install one there, or say `python: PATH` for target {target.name}.",
        )
    return RemoteCommandFailed(
        f"{target.name}: the probe could not be put there: {word.removeprefix('failed ')}.",
        target=target.name,
        command="receive probe.pyz",
        exit_status=None,
        remedy="Make room, or give the user a home that can be written.",
    )


def _silent(target: Target, step: str, within_s: float) -> Unreachable:
    return Unreachable(
        f"{target.name}: {step} within {within_s:g} s.",
        target=target.name,
        remedy="Look at the load and the network of the host; it is tried again.",
    )
