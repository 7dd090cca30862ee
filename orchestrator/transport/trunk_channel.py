"""One command of a trunk: its bytes both ways, kept until the other side has them.

Owns the three streams and how the command ended. Writes nothing itself (trunk.py does).
"""

import asyncio
from collections.abc import Callable

from orchestrator.core.errors import Unreachable
from orchestrator.probe import trunk_wire as wire
from orchestrator.transport.running import Tail


class TrunkChannel:
    """A Channel (base.py) of a trunk; what waits in it is a window of the wire at most."""

    def __init__(
        self,
        number: int,
        line: bytes,
        target: str,
        stir: Callable[[], None],
        let_go: Callable[[int], None],
    ) -> None:
        self._number, self._line, self._target = number, line, target
        self._stir, self._let_go = stir, let_go
        self.out, self.err = wire.Incoming(), wire.Incoming()
        self._typed = wire.Outgoing()
        self._opened = False
        self._input_ended = self._input_end_told = False
        self._waiting = bytearray()
        self._to_tell: list[tuple[bytes, int]] = []
        self._tail = Tail()
        self._status: int | None = None
        self._over = asyncio.Event()
        self._lost = False
        self._come, self._room = asyncio.Event(), asyncio.Event()

    # --- for whoever runs the command ------------------------------------------------------------

    async def write(self, chunk: bytes) -> None:
        """Keep for its stdin, waiting while the far side does not take it."""
        at = 0
        while at < len(chunk):
            if self._over.is_set():
                raise Unreachable(
                    f"{self._target}: a command no longer reads its input.", target=self._target
                )
            if self._typed.room <= 0:
                self._room.clear()
                await self._room.wait()
                continue
            part = chunk[at : at + self._typed.room]
            self._typed.add(part)
            at += len(part)
            self._stir()

    async def close_stdin(self) -> None:
        """End of its stdin."""
        self._input_ended = True
        self._stir()

    async def read(self, size: int = 65536) -> bytes:
        """Next bytes of its stdout; Unreachable once its holder is gone."""
        while not self._waiting and not self._over.is_set():
            self._come.clear()
            await self._come.wait()
        if not self._waiting and self._lost:
            raise Unreachable(
                f"{self._target}: the connection was lost, and what it held on the host.",
                target=self._target,
                remedy="It is opened anew by itself.",
            )
        chunk = bytes(self._waiting[:size])
        del self._waiting[:size]
        self._took(wire.ACK_OUT, self.out, self.out.end - len(self._waiting))
        return chunk

    def stderr_tail(self) -> str:
        """The end of what it wrote to stderr."""
        return self._tail.text()

    async def wait(self) -> int | None:
        """Its exit status; None where a signal or the loss of its holder ended it."""
        await self._over.wait()
        return self._status if self._status is not None and self._status >= 0 else None

    async def close(self) -> None:
        """End it there, by the end of its input and SIGTERM."""
        self._let_go(self._number)
        self.lose()

    # --- for the trunk ---------------------------------------------------------------------------

    def take(self, kind: bytes, offset: int, content: bytes) -> None:
        """What the holder says of it; BadTrunk where it makes no sense."""
        if kind == wire.OUT:
            self._waiting += self.out.fresh(offset, content)
            # Twice: after a cut a window is given anew, and one may still be unread here.
            if len(self._waiting) > 2 * wire.WINDOW_BYTES:
                raise wire.BadTrunk("more output than there was room for")
            self._come.set()
        elif kind == wire.ERR:
            self._tail.add(self.err.fresh(offset, content))
            self._took(wire.ACK_ERR, self.err, self.err.end)
        elif kind == wire.ACK_IN:
            self._typed.take(offset)
            self._room.set()
        elif kind == wire.EXIT:
            self._status = int(content)
            self._end()

    def resume(self, typed: int | None) -> None:
        """Go on behind a cut: `typed` is what has come of its stdin, None where it is unknown."""
        self._opened = typed is not None
        self._typed.rewind(typed or 0)
        self._input_end_told = False
        self._to_tell.clear()
        self._room.set()

    def next_frames(self) -> bytes:
        """What is to be sent now, a part of its input at most."""
        frames = bytearray()
        if not self._opened:
            self._opened = True
            frames += wire.frame(wire.OPEN, self._number, content=self._line)
        for kind, offset in self._to_tell:
            frames += wire.frame(kind, self._number, offset)
        self._to_tell.clear()
        if self._typed.waits:
            frames += wire.frame(wire.IN, self._number, *self._typed.next_part())
        if self._input_ended and not self._input_end_told and not self._typed.waits:
            self._input_end_told = True
            frames += wire.frame(wire.IN_END, self._number, self._typed.end)
        return bytes(frames)

    def lose(self) -> None:
        """Its holder is gone, or nobody wants it any more."""
        self._lost = self._lost or not self._over.is_set()
        self._end()

    def _end(self) -> None:
        self._over.set()
        self._come.set()
        self._room.set()

    def _took(self, kind: bytes, stream: wire.Incoming, taken: int) -> None:
        if stream.to_tell(taken):
            self._to_tell.append((kind, taken))
            self._stir()
