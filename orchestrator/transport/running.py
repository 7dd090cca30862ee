"""What every kind of transport shares: a command run to its end, and the tail of stderr.

Owns no way to a target; it is given an open channel.
"""

import asyncio
import re

from orchestrator.core.errors import TargetError, Unreachable
from orchestrator.transport.base import Channel, Completed

OUTPUT_LIMIT_BYTES = 64 * 1024 * 1024
"""More than any command of ours prints; a host that sends more is cut off."""

_TAIL_BYTES = 4096
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """Text of a target with control characters, a terminal's escapes among them, as `?`."""
    return _CONTROL.sub("?", text)


class Tail:
    """The end of a stream, 4 KiB or less."""

    def __init__(self) -> None:
        self._kept = b""

    def add(self, chunk: bytes) -> None:
        """Take the next bytes of the stream."""
        self._kept = (self._kept + chunk)[-_TAIL_BYTES:]

    def text(self) -> str:
        """The tail, printable."""
        return printable(self._kept.decode("utf-8", "replace").replace("\r\n", "\n"))


async def run_to_end(channel: Channel, *, stdin: bytes, timeout_s: float, target: str) -> Completed:
    """Feed a command, read it to its end, close its channel.

    Unreachable where it takes longer than `timeout_s` or prints more than OUTPUT_LIMIT_BYTES.
    """
    try:
        async with asyncio.timeout(timeout_s):
            stdout, status = await _converse(channel, stdin, target)
    except TimeoutError as exc:
        raise Unreachable(
            f"{target}: a command did not end within {timeout_s:g} s.",
            target=target,
            remedy="Look at the load of the host, or whether its container is stuck.",
        ) from exc
    finally:
        await channel.close()
    tail = channel.stderr_tail().encode()
    return Completed(exit_status=status, stdout=stdout, stderr=tail)


async def _converse(channel: Channel, stdin: bytes, target: str) -> tuple[bytes, int | None]:
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_feed(channel, stdin))
            output = tasks.create_task(_read_all(channel, target))
            status = tasks.create_task(channel.wait())
    except* TargetError as group:
        first = group.exceptions[0]
        raise first from None
    return output.result(), status.result()


async def _feed(channel: Channel, stdin: bytes) -> None:
    try:
        if stdin:
            await channel.write(stdin)
        await channel.close_stdin()
    except Unreachable:
        pass  # it may end without reading its stdin; its exit status says how


async def _read_all(channel: Channel, target: str) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while chunk := await channel.read():
        size += len(chunk)
        if size > OUTPUT_LIMIT_BYTES:
            raise Unreachable(
                f"{target}: a command printed more than {OUTPUT_LIMIT_BYTES >> 20} MiB.",
                target=target,
                remedy="Its login shell or the program runs wild; look at it by hand.",
            )
        chunks.append(chunk)
    return b"".join(chunks)
