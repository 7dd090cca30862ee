"""Packs a channel's data as asyncssh does, in a third of the time: it copies each packet ten times.

Owns how plain data on an AES-GCM connection becomes packets, and nothing else of the protocol:
whatever is in another state (other ciphers, keys that are due, a window that is full) is left to
asyncssh. It reaches into asyncssh for that; another version without these names goes its own way.
"""

import os
import struct
from collections.abc import Iterator

import asyncssh
from asyncssh.connection import SSHConnection
from asyncssh.constants import MSG_CHANNEL_DATA
from asyncssh.crypto.cipher import GCMCipher
from asyncssh.encryption import GCMEncryption
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

AT_ONCE_BYTES = 256 * 1024
"""As much as goes to the kernel in one call."""
_HEAD = struct.Struct(">BBII")
"""Length of the padding, kind, channel, length of the data."""
_BLOCK = 16
_LEAST_PADDING = 4


class Packets:
    """The packets of one channel."""

    def __init__(self, channel: "asyncssh.SSHClientChannel[bytes]") -> None:
        self._channel = channel
        self._gcm: tuple[GCMCipher, AESGCM] | None = None

    def send(self, content: memoryview) -> int:
        """Send what fits now of some bytes, and say how many; 0 where asyncssh has to send them.

        Keys that are due by time are seen by asyncssh alone, at a write of its own.
        """
        channel = self._channel
        size = min(len(content), AT_ONCE_BYTES, channel._send_window)
        if not size or channel._send_buf or channel._send_state != "open":
            return 0
        connection = channel.get_connection()
        if (
            not isinstance(connection._send_encryption, GCMEncryption)
            or connection._compressor
            or not connection._auth_complete
            or not connection._kex_complete
            or connection._rekey_bytes_sent + size >= connection._rekey_bytes
        ):
            return 0
        cipher = connection._send_encryption._cipher
        sealed = b"".join(self._sealed(cipher, connection, content[:size]))
        channel._send_window -= size
        connection._send(sealed)
        return size

    @property
    def full(self) -> bool:
        """Whether the window takes nothing now."""
        return not self._channel._send_window and not self._channel._send_buf

    def _sealed(
        self, cipher: GCMCipher, connection: SSHConnection, content: memoryview
    ) -> Iterator[bytes]:
        if self._gcm is None or self._gcm[0] is not cipher:
            self._gcm = cipher, AESGCM(cipher._key)
        gcm, number, most = self._gcm[1], self._channel._send_chan, self._channel._send_pktsize
        for at in range(0, len(content), most):
            part = content[at : at + most]
            padding = _BLOCK - (_HEAD.size + len(part)) % _BLOCK
            padding += _BLOCK if padding < _LEAST_PADDING else 0
            head = _HEAD.pack(padding, MSG_CHANNEL_DATA, number, len(part))
            plain = b"".join((head, part, os.urandom(padding)))
            length = len(plain).to_bytes(4, "big")
            yield length
            yield gcm.encrypt(cipher._iv, plain, length)
            cipher._update_iv()
            connection._send_seq = (connection._send_seq + 1) & 0xFFFFFFFF
            connection._rekey_bytes_sent += len(plain)
