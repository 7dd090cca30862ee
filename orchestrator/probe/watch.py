"""One watched attempt: its two streams, and how it ended once they are read to their ends.

Owns what is known of one attempt. Waits for nothing: serve.py calls it when something stirs.
"""

import os
from collections.abc import Iterable

from . import procfs
from .errors import Refused
from .files import identity_in, read_record
from .follow import Follower
from .frames import Frame
from .names import (
    ATTEMPT_FILE,
    EXIT_FILE,
    GAPS_FILE,
    LOG_FILE,
    OWN_ALERT_FILE,
    POKE_BYTES,
    POKE_FIFO,
    POKE_RECORD,
    POKE_STEADY,
)
from .opening import open_fifo

LOG = "log"
METRICS = "metrics"

RELAY_ENDED = "relay_ended"
REBOOTED = "rebooted"
RESTARTED = "restarted"
"""The container was, under the run: its first process is younger than the relay was."""


class Watch:
    """Follows one attempt from given offsets until `over`."""

    def __init__(
        self,
        name: str,
        attempt_dir: str,
        *,
        log_offset: int = 0,
        metrics_path: str | None = None,
        metrics_offset: int = 0,
        linked: bool = False,
    ) -> None:
        if not os.path.isdir(attempt_dir):
            raise Refused(
                f"There is no attempt in {attempt_dir}.",
                remedy="Its folder was removed; the run is lost.",
            )
        self.name = name
        self._dir = attempt_dir
        self._streams = {
            LOG: Follower(
                LOG,
                os.path.join(attempt_dir, LOG_FILE),
                log_offset,
                gaps_path=os.path.join(attempt_dir, GAPS_FILE),
                linked=linked,
            )
        }
        self.folders: list[str] = []
        """Folders whose changes concern this watch and are not poked."""
        if metrics_path:
            self._streams[METRICS] = Follower(METRICS, metrics_path, metrics_offset)
            self.folders.append(os.path.dirname(metrics_path))
        self.poke_fd = self._open_poke()
        if self.poke_fd is None:
            self.folders.append(attempt_dir)
        self.relay_fd: int | None = None
        self._relay: tuple[int, int] | None = None
        self._detached = False
        self._record: Frame | None = None
        self._gone: str | None = None
        self._news: list[Frame] = []
        if read_record(os.path.join(attempt_dir, OWN_ALERT_FILE)) is not None:
            # Before any byte: what these bytes are found to mean was told already.
            self._news.append({"kind": "told"})
        self.over = False
        self.look()

    def _open_poke(self) -> int | None:
        path = os.path.join(self._dir, POKE_FIFO)
        try:
            # Both ways: a FIFO without a writer would be readable for ever.
            return open_fifo(path, os.O_RDWR)
        except OSError:
            return None

    def poked(self) -> None:
        """The relay wrote something."""
        if self.poke_fd is None:
            return
        try:
            pokes = os.read(self.poke_fd, 65536)
        except BlockingIOError:
            return
        if POKE_BYTES in pokes:
            self._streams[LOG].hurry()
        if POKE_STEADY in pokes:
            self._streams[LOG].linger()
        if POKE_RECORD in pokes:
            self._streams[LOG].stir()
            self.look()

    def stir(self) -> None:
        """Something changed, it is not known what: read everything again."""
        for stream in self._streams.values():
            stream.linger()
        self.look()

    def folder_changed(self) -> None:
        """A file in one of `folders` was written to."""
        if self.poke_fd is None:
            self.stir()
        else:
            self._streams[METRICS].stir()

    def look(self) -> None:
        """Read the attempt's records: has it ended, does its relay live, was its pane lost?"""
        if self._record is not None or self._gone is not None:
            return
        attempt = read_record(os.path.join(self._dir, ATTEMPT_FILE))
        alive = self._relay_lives(attempt)
        # Read after the relay was looked at: it writes its record before it ends.
        self._record = read_record(os.path.join(self._dir, EXIT_FILE))
        if attempt is not None and bool(attempt.get("detached")) != self._detached:
            self._detached = not self._detached
            self._news.append({"kind": "session", "detached": self._detached})
        if self._record is None and not alive:
            self._gone = _how_gone(attempt)
        if self._record is not None or self._gone is not None:
            for stream in self._streams.values():
                stream.more = stream.final = True

    def _relay_lives(self, attempt: Frame | None) -> bool:
        if attempt is not None and not attempt.get("relay_pid"):
            # Left by the shell fallback, which has no relay: only its exit record can end it.
            return True
        told = identity_in(attempt, "relay_pid", "relay_start")
        if told is None:
            # Not written yet, unless it was seen: then somebody has removed or damaged it.
            return self._relay is None or procfs.lives(*self._relay)
        pid, start = told
        if self._relay is None:
            self._relay = told
            try:
                self.relay_fd = os.pidfd_open(pid)
            except OSError:
                # Gone already, or a kernel before 5.3: `lives` says which.
                pass
        return procfs.lives(pid, start)

    def acknowledge(self, stream: str, offset: int) -> None:
        """The daemon has stored a stream up to `offset`."""
        follower = self._streams.get(stream)
        if follower is not None:
            follower.acknowledge(offset)

    @property
    def ready(self) -> bool:
        """Whether `step` would have frames, or could tell the end."""
        return bool(self._news) or self._ended or any(s.ready for s in self._streams.values())

    @property
    def wait_s(self) -> float | None:
        """Seconds until a stream that has bytes may send them; None where none waits for that."""
        waits = [s.wait_s for s in self._streams.values() if s.more and s.window_open]
        return min(waits, default=None)

    @property
    def _ended(self) -> bool:
        known = self._record is not None or self._gone is not None
        return known and not self.over and not any(s.more for s in self._streams.values())

    def step(self) -> list[Frame]:
        """Frames of one chunk of each stream, and at the very last how the attempt ended."""
        frames, self._news = self._news, []
        for stream in self._streams.values():
            if stream.ready:
                frames += stream.step()
        if self._ended:
            self.over = True
            if self._record is not None:
                frames.append({"kind": "exit", "record": self._record})
            else:
                frames.append({"kind": "gone", "reason": self._gone})
        return [{**frame, "watch": self.name} for frame in frames]

    def fds(self) -> Iterable[int]:
        """Descriptors whose readability means news."""
        return [fd for fd in (self.poke_fd, self.relay_fd) if fd is not None]

    def _close_relay(self) -> None:
        if self.relay_fd is not None:
            os.close(self.relay_fd)
            self.relay_fd = None

    def close(self) -> None:
        """Let go of every descriptor."""
        self._close_relay()
        if self.poke_fd is not None:
            os.close(self.poke_fd)
            self.poke_fd = None
        for stream in self._streams.values():
            stream.close()


def _how_gone(attempt: Frame | None) -> str:
    """Why a relay may have ended without a record."""
    if attempt is None:
        return RELAY_ENDED
    if attempt.get("boot_id") != procfs.boot_id():
        return REBOOTED
    first, relay = procfs.start_time(1), attempt.get("relay_start")
    if first is not None and isinstance(relay, int) and first > relay:
        return RESTARTED
    return RELAY_ENDED
