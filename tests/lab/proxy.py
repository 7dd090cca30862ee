"""A TCP proxy on loopback that makes a link slow, lossy, silent or cut.

Owns the sockets between a client and one fixed server. It understands nothing of what it carries.
"""

from __future__ import annotations

import random
import socket
import struct
import threading
import time
from types import TracebackType

CHUNK_BYTES = 16384


class TcpProxy:
    """`with TcpProxy(address, port) as proxy:` listens on `proxy.port` until the block ends.

    Set at any time: `latency_s` (added to every chunk in each direction), `bytes_per_s` (0: no
    limit), `loss` (the share of chunks that wait `resend_s` as if the first copy was lost).
    """

    def __init__(self, address: str, port: int, *, seed: int = 0) -> None:
        self.latency_s = 0.0
        self.bytes_per_s = 0
        self.loss = 0.0
        self.resend_s = 0.2
        self.carried_bytes = 0
        """both directions together"""
        self.accepted = 0
        """connections that the server was asked for so far"""
        self._server = (address, port)
        self._random = random.Random(seed)
        self._flowing = threading.Event()
        self._flowing.set()
        self._refusing = False
        self._closed = False
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> TcpProxy:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closed = True
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._flowing.set()
        self._drop()
        self._thread.join()

    def stall(self) -> None:
        """Carry nothing and close nothing until `resume`: a link that died without a word."""
        self._flowing.clear()

    def resume(self) -> None:
        """Carry again what waited since `stall`."""
        self._flowing.set()

    def cut(self) -> None:
        """Reset every connection and any new one until `restore`."""
        self._refusing = True
        self._drop()

    def restore(self) -> None:
        """Let new connections through again."""
        self._refusing = False

    def _drop(self) -> None:
        with self._lock:
            doomed, self._open = self._open, set()
        for end in doomed:
            _reset(end)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            if self._refusing or self._closed:
                _reset(client)
                client.close()
                continue
            try:
                server = socket.create_connection(self._server, timeout=10)
            except OSError:
                _reset(client)
                client.close()
                continue
            server.settimeout(None)
            self.accepted += 1
            with self._lock:
                self._open |= {client, server}
            done = threading.Barrier(2, action=lambda a=client, b=server: self._close(a, b))  # type: ignore[misc]
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._pump, args=(source, sink, done), daemon=True).start()

    def _close(self, *ends: socket.socket) -> None:
        with self._lock:
            self._open -= set(ends)
        for end in ends:
            end.close()

    def _pump(self, source: socket.socket, sink: socket.socket, done: threading.Barrier) -> None:
        try:
            while chunk := source.recv(CHUNK_BYTES):
                self._wait(len(chunk))
                sink.sendall(chunk)
                self.carried_bytes += len(chunk)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            _reset(source)
            _reset(sink)
        done.wait()

    def _wait(self, num_bytes: int) -> None:
        pause = self.latency_s
        if self.bytes_per_s:
            pause += num_bytes / self.bytes_per_s
        if self.loss and self._random.random() < self.loss:
            pause += self.resend_s
        if pause:
            time.sleep(pause)
        self._flowing.wait()


def _reset(end: socket.socket) -> None:
    """Make the peer see a reset; the descriptor stays for its pump to close."""
    try:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it was closed or never connected
