"""Frames in and out of one pair of pipes, without ever waiting for either.

Owns the buffers and their bound. A frame with `raw` is followed by so many bytes that belong to
it. What a frame means is serve.py's.
"""

import fcntl
import os
import selectors
import time
from collections.abc import Callable

from .frames import MAX_FRAME_BYTES, BadFrame, Frame, decode, encode, raw_size

OUT_BYTES = 1024 * 1024
IN_BYTES = 1024 * 1024
LINE_BYTES = 64 * 1024
"""Read at once where bytes behind a line are to be expected: they belong into their own buffer."""
_SPARE = 6
_F_SETPIPE_SZ = 1031

_FEW_BYTES = 256 * 1024
_MOMENT_S = 0.001
"""A thousand times a second is often enough for bytes that come in pieces: sshd hands over 32 KiB,
and waking up for each costs more than to take them in."""


class Wire:
    """stdin and stdout of the probe; `open` until the daemon's end is gone."""

    def __init__(
        self,
        selector: selectors.BaseSelector,
        stdin: int,
        stdout: int,
        on_frame: Callable[[Frame], None],
        on_noise: Callable[[BadFrame], None],
    ) -> None:
        self._selector = selector
        self._stdin = stdin
        self._stdout = stdout
        self._on_frame = on_frame
        self._on_noise = on_noise
        self._in = bytearray()
        self._searched = 0
        self._raw: _Raw | None = None
        self._spare: list[bytearray] = []
        self._widened = False
        self._out = bytearray()
        self.open = True
        self.heard_at = time.monotonic()
        """When the newest frame came, on the monotonic clock."""
        os.set_blocking(stdin, False)
        os.set_blocking(stdout, False)
        selector.register(stdin, selectors.EVENT_READ, self._receive)

    @property
    def congested(self) -> bool:
        """Whether so much is on its way out that only answers may still be added."""
        return len(self._out) >= OUT_BYTES

    def send(self, frame: Frame) -> None:
        """Put a frame on its way; `flush` writes it.

        In the place of one that is too large goes an error: the daemon could only drop the link
        over it, with all else that is watched here.
        """
        encoded = encode(frame)
        if encoded.find(b"\n") > MAX_FRAME_BYTES:
            encoded = encode(_too_large(frame))
        self._out += encoded

    def take_back(self, frame: Frame) -> None:
        """The bytes behind a frame are needed no more: their buffer serves those that follow.

        A new one is cleared first and comes page by page, which costs as much as to fill it.
        """
        args = frame.get("args")
        content = args.pop("data", None) if isinstance(args, dict) else None
        if isinstance(content, bytearray) and len(self._spare) < _SPARE:
            self._spare.append(content)

    def rest(self) -> None:
        """Keep no buffers: so far as is known nothing large follows."""
        self._spare.clear()

    def flush(self) -> None:
        """Write what the pipe takes, and be woken for the rest."""
        while self._out:
            try:
                written = os.write(self._stdout, self._out)
            except BlockingIOError:
                break
            except OSError:
                self.open = False
                return
            del self._out[:written]
        registered = self._stdout in self._selector.get_map()
        if self._out and not registered:
            self._selector.register(self._stdout, selectors.EVENT_WRITE, self.flush)
        elif registered and not self._out:
            self._selector.unregister(self._stdout)

    def _receive(self) -> None:
        try:
            if self._raw is not None:
                size = os.readv(self._stdin, [self._raw.rest()])
                self._raw.filled += size
                chunk = b""
                if 0 < size < _FEW_BYTES and self._raw.rest():
                    time.sleep(_MOMENT_S)
            else:
                chunk = os.read(self._stdin, LINE_BYTES if self._widened else IN_BYTES)
                size = len(chunk)
        except BlockingIOError:
            return
        if not size:
            self.open = False
            return
        self.heard_at = time.monotonic()
        self._in += chunk
        while self._next():
            pass

    def _next(self) -> bool:
        """Take one frame out of what came; False where none is whole yet."""
        if self._raw is not None:
            return self._complete(self._raw)
        end = self._in.find(b"\n", self._searched)
        if end < 0:
            self._searched = len(self._in)
            return False
        line = bytes(self._in[:end])
        del self._in[: end + 1]
        self._searched = 0
        try:
            frame = decode(line)
            size = raw_size(frame)
        except BadFrame as exc:
            self._on_noise(exc)
            return True
        if size is None:
            self._on_frame(frame)
        else:
            self._widen()
            self._raw = _Raw(frame, self._buffer(size), self._in[:size])
            del self._in[:size]
        return True

    def _complete(self, raw: "_Raw") -> bool:
        if raw.filled < len(raw.content):
            return False
        self._raw = None
        raw.frame.setdefault("args", {})["data"] = raw.content
        self._on_frame(raw.frame)
        return True

    def _buffer(self, size: int) -> bytearray:
        spare = next((one for one in self._spare if len(one) == size), None)
        if spare is None:
            del self._spare[_SPARE - 1 :]
            return bytearray(size)
        self._spare = [one for one in self._spare if one is not spare]
        return spare

    def _widen(self) -> None:
        """A larger pipe for bulk: fewer wake-ups for the same bytes."""
        if not self._widened:
            self._widened = True
            try:
                fcntl.fcntl(self._stdin, _F_SETPIPE_SZ, IN_BYTES)
            except OSError:
                pass  # a socket, or the user's share of pipes is used up: it works all the same


def _too_large(frame: Frame) -> Frame:
    error = {
        "type": "Refused",
        "message": f"the {frame['kind']} to say is larger than {MAX_FRAME_BYTES >> 20} MiB.",
        "remedy": "Ask for less at a time.",
    }
    return {"kind": "result", "id": frame.get("id"), "error": error}


class _Raw:
    """A frame whose bytes are on their way."""

    def __init__(self, frame: Frame, content: bytearray, begun: bytearray) -> None:
        self.frame = frame
        self.content = content
        self.content[: len(begun)] = begun
        self.filled = len(begun)

    def rest(self) -> memoryview:
        """Where the next bytes belong."""
        return memoryview(self.content)[self.filled :]
