"""All watches of a probe: what wakes them, and whose turn it is.

Owns the descriptors by which the kernel tells of news. One watch is watch.py's.
"""

import selectors
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from .frames import Frame
from .pace import next_look
from .watch import Watch

if TYPE_CHECKING:
    from .inotify import Inotify

LOOK_S = 1.0
POLL_S = 0.1


class Watches:
    """Watches by name; `pump` moves them on."""

    def __init__(self, selector: selectors.BaseSelector, send: Callable[[Frame], None]) -> None:
        self._selector = selector
        self._send = send
        self._watches: dict[str, Watch] = {}
        self._fds: dict[int, str] = {}
        self._folders: dict[int, set[str]] = {}
        self._inotify: Inotify | None = None
        self._next_look = time.monotonic() + LOOK_S

    def add(self, args: Frame) -> None:
        """Begin a watch (args of the op `watch`), in place of one of that name."""
        name = args["watch"]
        self.remove(name)
        watch = Watch(
            name,
            args["attempt_dir"],
            log_offset=int(args.get("log_offset") or 0),
            metrics_path=args.get("metrics_path"),
            metrics_offset=int(args.get("metrics_offset") or 0),
            linked=bool(args.get("linked")),
        )
        self._watches[name] = watch
        for fd in watch.fds():
            self._fds[fd] = name
            self._selector.register(fd, selectors.EVENT_READ, lambda fd=fd: self._stirred(fd))
        for folder in watch.folders:
            self._listen(folder, name)

    def remove(self, name: str) -> None:
        """End a watch, if there is one of that name."""
        watch = self._watches.pop(name, None)
        if watch is None:
            return
        for fd in watch.fds():
            self._forget(fd)
        for number in [n for n, names in self._folders.items() if name in names]:
            self._folders[number].discard(name)
            if not self._folders[number] and self._inotify is not None:
                del self._folders[number]
                self._inotify.remove(number)
        watch.close()

    def clear(self) -> None:
        """End all of them."""
        for name in list(self._watches):
            self.remove(name)

    def acknowledge(self, frame: Frame) -> None:
        """Take an `ack`; one of a watch that is over is of no interest."""
        watch = self._watches.get(frame.get("watch", ""))
        if watch is not None:
            watch.acknowledge(str(frame.get("stream")), int(frame.get("offset") or 0))

    @property
    def ready(self) -> bool:
        """Whether `pump` would send something."""
        return any(watch.ready for watch in self._watches.values())

    @property
    def next_at(self) -> float | None:
        """When to look at files that nothing tells of, or to go on, on the monotonic clock."""
        if not self._watches:
            return None
        waits = [w for watch in self._watches.values() if (w := watch.wait_s) is not None]
        return min([self._next_look, *(time.monotonic() + wait for wait in waits)])

    def look(self, now: float) -> None:
        """Pokes and inotify can be missed (a full pipe, a limit); a look every so often cannot."""
        if now < self._next_look:
            return
        # With inotify at one of the moments at which bytes are looked for: one wake-up does both.
        self._next_look = next_look(now + LOOK_S) if self._inotify is not None else now + POLL_S
        for watch in self._watches.values():
            watch.stir()

    def pump(self, congested: Callable[[], bool]) -> None:
        """One chunk of each watch in turn while there is room: no flood starves another."""
        for name in list(self._watches):
            if congested():
                return
            watch = self._watches.pop(name)
            # Reinserted behind the others, so that the next round begins with them.
            self._watches[name] = watch
            if watch.ready:
                for frame in watch.step():
                    self._send(frame)
                if watch.over:
                    self.remove(name)

    def _stirred(self, fd: int) -> None:
        watch = self._watches[self._fds[fd]]
        if fd == watch.poke_fd:
            watch.poked()
        else:
            # The relay has ended: its descriptor stays readable, so it is listened to once.
            self._forget(fd)
            watch.stir()

    def _listen(self, folder: str, name: str) -> None:
        try:
            if self._inotify is None:
                # ctypes costs a few milliseconds, which `hello` need not wait for.
                from .inotify import Inotify

                self._inotify = Inotify()
                self._selector.register(
                    self._inotify.fd, selectors.EVENT_READ, self._folders_changed
                )
            self._folders.setdefault(self._inotify.add(folder), set()).add(name)
        except OSError:
            # No instance left, or no such folder yet: the look every so often has to do.
            pass

    def _folders_changed(self) -> None:
        assert self._inotify is not None
        for number in self._inotify.changed():
            for name in self._folders.get(number, ()):
                self._watches[name].folder_changed()

    def _forget(self, fd: int) -> None:
        if self._fds.pop(fd, None) is not None:
            self._selector.unregister(fd)
