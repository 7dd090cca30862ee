"""Packs a channel's data as asyncssh does, in a third of the time: it copies each packet ten times.

Owns how plain data on an AES-GCM connection becomes packets, and nothing else of the protocol:
whatever is in another state (other ciphers, keys that are due, a window that is full) is left to
asyncssh. It reaches into asyncssh for that: where a version has not one of the names, all of it is.
"""

import os
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING

import asyncssh
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

if TYPE_CHECKING:
    from asyncssh.connection import SSHConnection
    from asyncssh.crypto.cipher import GCMCipher

AT_ONCE_BYTES = 256 * 1024
"""As much as goes to the kernel in one call."""
_HEAD = struct.Struct(">BBII")
"""Length of the padding, kind, channel, length of the data."""
_BLOCK = 16
_LEAST_PADDING = 4
_MSG_CHANNEL_DATA = 94
"""RFC 4254, section 5.2."""
_OF_CHANNEL = ("_send_window", "_send_buf", "_send_state", "_send_chan", "_send_pktsize")
_OF_CONNECTION = (
    *("_send_encryption", "_compressor", "_auth_complete", "_kex_complete", "_rekey_bytes"),
    *("_rekey_bytes_sent", "_send_seq", "_send"),
)
_OF_CIPHER = ("_key", "_iv", "_update_iv")


class Packets:
    """The packets of one channel."""

    def __init__(self, channel: "asyncssh.SSHClientChannel[bytes]") -> None:
        self._channel = channel
        self._gcm: tuple[GCMCipher, AESGCM] | None = None
        self._known = _has(channel, _OF_CHANNEL) and _has(channel.get_connection(), _OF_CONNECTION)
        self.sent = 0
        """Bytes that went this way."""

    def send(self, content: memoryview) -> int:
        """Send what fits now of some bytes, and say how many; 0 where asyncssh has to send them.

        Keys that are due by time are seen by asyncssh alone, at a write of its own.
        """
        if not self._known:
            return 0
        channel = self._channel
        size = min(len(content), AT_ONCE_BYTES, channel._send_window)
        if not size or channel._send_buf or channel._send_state != "open":
            return 0
        connection = channel.get_connection()
        cipher = _cipher_of(connection)
        if (
            cipher is None
            or connection._compressor
            or not connection._auth_complete
            or not connection._kex_complete
            or connection._rekey_bytes_sent + size >= connection._rekey_bytes
        ):
            return 0
        sealed = b"".join(self._sealed(cipher, connection, content[:size]))
        channel._send_window -= size
        connection._send(sealed)
        self.sent += size
        return size

    @property
    def full(self) -> bool:
        """Whether the window takes nothing now."""
        return self._known and not self._channel._send_window and not self._channel._send_buf

    def _sealed(
        self, cipher: "GCMCipher", connection: "SSHConnection", content: memoryview
    ) -> Iterator[bytes]:
        if self._gcm is None or self._gcm[0] is not cipher:
            self._gcm = cipher, AESGCM(cipher._key)
        gcm, number, most = self._gcm[1], self._channel._send_chan, self._channel._send_pktsize
        for at in range(0, len(content), most):
            part = content[at : at + most]
            padding = _BLOCK - (_HEAD.size + len(part)) % _BLOCK
            padding += _BLOCK if padding < _LEAST_PADDING else 0
            head = _HEAD.pack(padding, _MSG_CHANNEL_DATA, number, len(part))
            plain = b"".join((head, part, os.urandom(padding)))
            length = len(plain).to_bytes(4, "big")
            yield length
            yield gcm.encrypt(cipher._iv, plain, length)
            cipher._update_iv()
            connection._send_seq = (connection._send_seq + 1) & 0xFFFFFFFF
            connection._rekey_bytes_sent += len(plain)


def _has(one: object, names: tuple[str, ...]) -> bool:
    return all(hasattr(one, name) for name in names)


def _cipher_of(connection: "SSHConnection") -> "GCMCipher | None":
    """What seals with AES-GCM now; None where something else does, or what has other names."""
    encryption = connection._send_encryption
    if type(encryption).__name__ != "GCMEncryption":
        return None
    cipher: GCMCipher | None = getattr(encryption, "_cipher", None)
    return cipher if _has(cipher, _OF_CIPHER) else None
