"""Wakes the probe when files in a folder change: the kernel's inotify, through ctypes."""

import ctypes
import os
import struct

_MODIFY = 0x00000002
_MOVED_TO = 0x00000080
_CREATE = 0x00000100
_EVENT = struct.Struct("iIII")


class Inotify:
    """One instance; OSError where the user's limit of instances (128) is reached."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.fd: int = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")

    def add(self, folder: str) -> int:
        """Watch a folder and return its number; OSError where it cannot be watched."""
        mask = _MODIFY | _MOVED_TO | _CREATE
        number: int = self._libc.inotify_add_watch(self.fd, os.fsencode(folder), mask)
        if number < 0:
            raise OSError(ctypes.get_errno(), "inotify_add_watch", folder)
        return number

    def remove(self, number: int) -> None:
        """Stop watching a folder."""
        self._libc.inotify_rm_watch(self.fd, number)

    def changed(self) -> set[int]:
        """Numbers of the folders in which something changed since the last call."""
        found: set[int] = set()
        while True:
            try:
                events = os.read(self.fd, 65536)
            except BlockingIOError:
                return found
            at = 0
            while at < len(events):
                number, _mask, _cookie, length = _EVENT.unpack_from(events, at)
                found.add(number)
                at += _EVENT.size + length
