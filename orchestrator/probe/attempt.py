"""The relay: holds the truth about one attempt while tmux only shows it.

Owns the program's pty and the attempt's log, and says when the exit record is due. Every byte goes
to the log first and is then shown in the pane, which is never waited for. Outlives the tmux server,
its own pane and every probe. Stdlib only, and nothing is imported late: the zipapp may be pruned
meanwhile.
"""

import errno
import json
import os
import select
import signal
import time
import tty
from typing import TYPE_CHECKING

from . import child, procfs
from .exit_record import ExitRecord, end_words
from .files import RESERVED_BYTES, reserve, write_record, write_reserved
from .logfile import LogFile
from .names import ATTEMPT_FILE, LOG_FILE, SPEC_FIFO
from .orphans import Orphans
from .pane import Pane
from .poke import Poke
from .spec import Spec, read_spec

if TYPE_CHECKING:
    from .own_alert import OwnAlert

SPEC_WITHIN_S = 60.0
READ_BYTES = 64 * 1024
BATCH_BYTES = 256 * 1024
SHORT_BYTES = 2048
"""A pty hands out 4 KiB at a time while it has more: what is shorter was the end for now."""
TYPED_BYTES = 4096
RETRY_S = 0.5
LOOK_S = 1.0
QUIET_ROUNDS = 10
QUIET_ROUND_S = 0.05
DRAIN_S = 3.0
LAST_RETRY_S = 5.0


def main(directory: str) -> int:
    """Run one attempt to its end; the program's exit code, or 128 and its signal."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    spec = read_spec(os.path.join(directory, SPEC_FIFO), SPEC_WITHIN_S)
    if spec is None:
        print(f"orch: no launch came through {directory}/{SPEC_FIFO}; run it again")  # noqa: T201  in the pane
        return 1
    return Relay(directory, spec).run()


class Relay:
    """One attempt, from the fork to the exit record."""

    def __init__(self, directory: str, spec: Spec) -> None:
        self._directory = directory
        self._attempt_path = os.path.join(directory, ATTEMPT_FILE)
        self._spec = spec
        self._log = LogFile(directory)
        # Before the fork: where these cannot be written, nothing is started.
        self._exit_record = ExitRecord(directory)
        asked = len(json.dumps(spec.get("asked")))
        attempt_reserved = reserve(self._attempt_path, RESERVED_BYTES + asked)
        self._own_alert = _own_alert(directory, spec)
        self._poke = Poke(directory)
        self._terminal = os.isatty(0)
        if self._terminal:
            tty.setraw(0)
        os.set_blocking(0, False)
        os.set_blocking(1, False)
        self._pane = Pane(1)
        self._poll = select.poll()
        self._started_at = time.time()
        child.adopt_orphans()
        self._pid, self._master = child.start(spec["argv"], spec["env"], spec["cwd"])
        self._start = procfs.start_time(self._pid) or 0
        self._orphans = Orphans(directory, self._pid)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._forward)
        self._detached = False
        self._status: int | None = None
        self._ended_at = 0.0
        self._ended = 0.0
        self._quiet_rounds = 0
        self._hung_up = False
        self._next_retry = 0.0
        self._next_look = time.monotonic() + LOOK_S
        write_reserved(attempt_reserved, self._attempt_path, self._record())
        self._poke.record()

    def _record(self) -> dict[str, object]:
        return {
            "run": self._spec["run"],
            "uid": self._spec["uid"],
            "attempt": self._spec["attempt"],
            "session": self._spec["session"],
            "cwd": self._spec["cwd"],
            "relay_pid": os.getpid(),
            "relay_start": procfs.start_time(os.getpid()),
            "pid": self._pid,
            "start": self._start,
            "boot_id": procfs.boot_id(),
            "started_at": self._started_at,
            "detached": self._detached,
            "asked": self._spec.get("asked"),
        }

    def _forward(self, number: int, _frame: object) -> None:
        """Pass a signal that was meant for the program on to it."""
        if self._status is None:
            try:
                os.killpg(self._pid, number)
            except ProcessLookupError:
                pass

    def run(self) -> int:
        """Relay until the program has ended and its terminal is drained; then write the record."""
        self._poll.register(self._master, select.POLLIN)
        self._poll.register(0, select.POLLIN)
        exit_fd = self._watch_child()
        may_have_ended = exit_fd is None
        while not self._drained():
            events = self._poll.poll(self._wait_ms())
            # Counted, not timed: on a busy machine half a second may pass without a look.
            self._quiet_rounds = 0 if events or self._status is None else self._quiet_rounds + 1
            for fd, event in events:
                if fd == self._master:
                    self._relay_output()
                elif fd == 0:
                    self._relay_input(event)
                elif fd == exit_fd:
                    self._poll.unregister(fd)
                    may_have_ended = True
            now = time.monotonic()
            if may_have_ended:
                self._reap(now)
            self._poke.late(now)
            self._show(now)
            self._look(now)
        return self._finish()

    def _watch_child(self) -> int | None:
        try:
            fd = os.pidfd_open(self._pid)
        except OSError:
            # A kernel before 5.3: the loop looks every so often instead.
            return None
        self._poll.register(fd, select.POLLIN)
        return fd

    def _wait_ms(self) -> float:
        now = time.monotonic()
        waits = [LOOK_S]
        pane = self._pane.wants(now)
        if pane is not None:
            # A pane that takes nothing is tried again soon, but not in a busy loop.
            waits.append(max(pane, 0.01))
        if self._log.behind:
            waits.append(RETRY_S)
        poke = self._poke.wait_s(now)
        if poke is not None:
            waits.append(poke)
        if self._status is not None:
            waits.append(QUIET_ROUND_S)
        return min(waits) * 1000

    def _drained(self) -> bool:
        """Nothing more can come: the terminal is closed, or kept open by silent descendants."""
        if self._status is None:
            return False
        if self._hung_up:
            return True
        late = time.monotonic() - self._ended > DRAIN_S
        return self._quiet_rounds >= (1 if late else QUIET_ROUNDS)

    def _relay_output(self) -> None:
        chunks = []
        size = 0
        while size < BATCH_BYTES:
            try:
                chunk = os.read(self._master, READ_BYTES)
            except BlockingIOError:
                break
            except OSError as exc:
                if exc.errno != errno.EIO:
                    raise
                # EIO: the last one who had the terminal open has closed it.
                self._deafen()
                break
            chunks.append(chunk)
            size += len(chunk)
            if len(chunk) < SHORT_BYTES:
                break
        if chunks:
            output = b"".join(chunks)
            begun = time.monotonic()
            self._log.append(output)
            self._poke.wrote(output, begun, time.monotonic())
            self._pane.show(output)

    def _deafen(self) -> None:
        """Nobody has the terminal open; its leader, who may live, gets SIGHUP if we close it."""
        self._poll.unregister(self._master)
        self._hung_up = True

    def _listen_again(self) -> None:
        """Somebody may have opened the terminal by its name meanwhile, and written."""
        if self._hung_up:
            self._poll.register(self._master, select.POLLIN)
            self._hung_up = False

    def _relay_input(self, event: int) -> None:
        try:
            typed = os.read(0, TYPED_BYTES) if event & select.POLLIN else b""
        except BlockingIOError:
            return
        except OSError:
            typed = b""
        if not typed:
            self._lose_pane()
        elif not self._hung_up:
            try:
                os.write(self._master, typed)
            except OSError:
                # A program that reads nothing has a full terminal; what is typed then is lost.
                pass

    def _lose_pane(self) -> None:
        """The tmux server, or the session, is gone; the attempt goes on without it."""
        self._poll.unregister(0)
        self._pane.lose()
        if self._terminal:
            self._detached = True
            try:
                write_record(self._attempt_path, self._record())
            except OSError:
                # A full disk: that the pane is gone is the least of what is known then.
                pass
            self._poke.record()

    def _reap(self, now: float) -> None:
        """Of the program, and of the orphans that it left to us."""
        while self._status is None:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            if pid == self._pid:
                self._status = os.waitstatus_to_exitcode(status)
                self._ended_at = time.time()
                self._ended = now
                self._listen_again()

    def _show(self, now: float) -> None:
        if self._pane.wants(now) == 0.0:
            self._pane.write(now)

    def _look(self, now: float) -> None:
        if self._log.behind and now >= self._next_retry:
            self._next_retry = now + RETRY_S
            self._log.retry()
            self._poke.late_bytes()
        if now >= self._next_look:
            self._next_look = now + LOOK_S
            self._reap(now)
            self._log.reopen_if_moved()
            self._orphans.look()
            if self._status is None:
                self._listen_again()

    def _finish(self) -> int:
        if self._status is None:
            raise AssertionError("the relay ended before its program")
        deadline = time.monotonic() + LAST_RETRY_S
        while self._log.behind and not self._log.retry() and time.monotonic() < deadline:
            time.sleep(RETRY_S)
        self._log.give_up()
        status = self._status
        record = self._exit_record.write(
            status,
            started_at=self._started_at,
            ended_at=self._ended_at,
            log=self._log,
            awaited=self._own_alert is not None and status != 0,
        )
        self._poke.record()
        if self._own_alert is not None:
            self._own_alert.forget() if status == 0 else self._own_alert.leave_behind(record)
        self._say_end(status)
        return status if status >= 0 else 128 - status

    def _say_end(self, status: int) -> None:
        how = end_words(status)
        text = (
            f"\r\n[orch] {self._spec['run']} attempt {self._spec['attempt']} ended: {how}; "
            f"whole log: {self._directory}/{LOG_FILE}; more: orch show {self._spec['run']}\r\n"
        )
        self._pane.show(text.encode())
        deadline = time.monotonic() + 1.0
        while (wait := self._pane.wants(time.monotonic())) is not None:
            if time.monotonic() > deadline:
                return
            time.sleep(max(wait, 0.001))
            self._pane.write(time.monotonic())


def _own_alert(directory: str, spec: Spec) -> "OwnAlert | None":
    """Loaded where it is wanted alone: it costs as much as all the rest of the relay."""
    if not spec.get("own_alert"):
        return None
    from .own_alert import OwnAlert

    return OwnAlert(directory, spec)
