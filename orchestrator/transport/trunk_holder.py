"""Who holds a host's trunk: started there, or joined again, over a connection of any kind.

Owns what is sent for it to run (probe/trunk.py) and its first words. What is carried behind them
is trunk.py's.
"""

import asyncio
import contextlib
import inspect
from collections.abc import Awaitable, Callable
from functools import cache

from orchestrator.core.command import marked_line
from orchestrator.core.errors import Unreachable
from orchestrator.probe import trunk as far_end
from orchestrator.probe import trunk_command, trunk_wire
from orchestrator.transport.base import Channel
from orchestrator.transport.marked import MarkedChannel
from orchestrator.transport.python import python_command

ANSWER_WITHIN_S = 30.0
_NOISE_BYTES = 64 * 1024

_READ = "import sys; exec(sys.stdin.buffer.read(int(sys.argv[3])))"
"""What is to run comes in on stdin: in the command itself it would fill every `ps`."""

_RUN = """
import sys, types
package = sys.modules["trunk"] = types.ModuleType("trunk")
package.__path__ = []
for name, text in texts.items():
    module = sys.modules["trunk." + name] = types.ModuleType("trunk." + name)
    module.__package__ = "trunk"
    setattr(package, name, module)
    exec(compile(text, name, "exec"), module.__dict__)
sys.exit(module.main(sys.argv[1:3]))
"""


class NoTrunk(Exception):  # noqa: N818  a fact for host.py, not an error that travels
    """The host holds nothing for us: no Python, no place for a socket, or no right to run it."""


class HolderGone(Exception):  # noqa: N818  a fact for trunk.py
    """There is no holder any more."""


async def reach_holder(
    host: str, start: Callable[[bytes], Awaitable[Channel]], verb: str, name: str
) -> tuple[Channel, bytes]:
    """A channel on which the frames of holder `name` follow, and the first of their bytes.

    `verb` is `hold` to start it, `join` to come back to it; `start` runs a line on the host.
    NoTrunk where it cannot be, HolderGone where it is no more, else TargetError.
    """
    text = _text()
    line = marked_line(python_command(_READ, (verb, name, str(len(text)))))
    channel = MarkedChannel(await start(line), host)
    try:
        async with asyncio.timeout(ANSWER_WITHIN_S):
            # A host without Python reads none of it, and says so.
            with contextlib.suppress(Unreachable):
                await channel.write(text)
            word, rest = await _first_words(host, channel)
    except TimeoutError as exc:
        await channel.close()
        raise way_lost(host, "gives no answer") from exc
    except BaseException:
        await channel.close()
        raise
    if word == "here":
        return channel, rest
    await channel.close()
    raise HolderGone if word == "gone" else NoTrunk


async def _first_words(host: str, channel: Channel) -> tuple[str, bytes]:
    said = bytearray()
    while len(said) < _NOISE_BYTES:
        _, mark, behind = bytes(said).partition(b"\norch ")
        word, end, rest = behind.partition(b"\n")
        if mark and end:
            return word.decode("ascii", "replace").split()[0], rest
        chunk = await channel.read()
        if not chunk:
            break
        said += chunk
    if await channel.wait() is not None:
        raise NoTrunk  # whoever may run some commands only was told that ours is not among them
    raise way_lost(host, "was lost before it began")


def way_lost(host: str, how: str) -> Unreachable:
    """The error of a way that carries nothing any more."""
    return Unreachable(
        f"{host}: the way in {how}.", target=host, remedy="It is tried again by itself."
    )


@cache
def _text() -> bytes:
    """All that runs at the far end, in one piece."""
    texts = {
        module.__name__.rpartition(".")[2]: inspect.getsource(module)
        for module in (trunk_wire, trunk_command, far_end)
    }
    return f"texts = {texts!r}{_RUN}".encode()
