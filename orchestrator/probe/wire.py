"""Frames in and out of one pair of pipes, without ever waiting for either.

Owns the buffers and their bound. What a frame means is serve.py's.
"""

import os
import selectors
import time
from collections.abc import Callable

from .frames import BadFrame, Frame, decode, encode

OUT_BYTES = 1024 * 1024
IN_BYTES = 1024 * 1024


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
        """Put a frame on its way; `flush` writes it."""
        self._out += encode(frame)

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
            chunk = os.read(self._stdin, IN_BYTES)
        except BlockingIOError:
            return
        if not chunk:
            self.open = False
            return
        searched = len(self._in)
        self._in += chunk
        end = self._in.find(b"\n", searched)
        while end >= 0:
            line = bytes(self._in[:end])
            del self._in[: end + 1]
            self.heard_at = time.monotonic()
            try:
                self._on_frame(decode(line))
            except BadFrame as exc:
                self._on_noise(exc)
            end = self._in.find(b"\n")
