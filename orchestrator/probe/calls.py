"""Calls that may take long run in threads; the loop alone touches state and sends frames.

Owns the threads and the table of ops. An op's module is imported when it is first called.
"""

import os
import selectors
import threading
from collections import deque
from collections.abc import Callable
from importlib import import_module
from typing import Any

from .errors import BadCall
from .frames import Frame
from .ops import Op

OP_MODULES = {
    "launch": "launch",
    "end": "ending",
    "signal": "ending",
    "acknowledge": "ending",
    "end_pid": "ending_one",
    "read": "reading",
    "processes": "processes",
    "sessions": "tmux",
    "gpus": "gpus",
    "kernel_lines": "kernel",
    "activity": "activity",
    "dump": "activity",
    "preflight": "preflight",
    "release_look": "release",
    "release_offer": "release",
    "release_blobs": "release",
    "release_commit": "release",
    "release_abandon": "release",
    "release_list": "release",
    "release_switch": "release",
    "release_prune": "release",
    "runs_prune": "run_folders",
    "runs_known": "run_folders",
    "runs_highest": "run_folders",
    "environment": "environment",
    **dict.fromkeys(("cache_list", "cache_save", "cache_clear", "cache_restore"), "caches"),
    "adopt_look": "adopting",
    "adopt": "adopting",
    **dict.fromkeys(("copy_hold", "copy_let_go"), "copy_turns"),
    **dict.fromkeys(
        (
            *("copy_look", "copy_tree", "copy_digest", "copy_read", "copy_write", "copy_commit"),
            "copy_make",
            "copy_name",
            "copy_remove",
        ),
        "copying",
    ),
}
"""Where each op is, but for those of the loop itself (serve.py)."""

THREADS = 8


def op_of(name: str) -> Op:
    """The function of an op; its module is imported now if it was not yet."""
    if name not in OP_MODULES:
        raise BadCall(f"This probe has no op `{name}`.", remedy="Restart the daemon.")
    module = import_module(f".{OP_MODULES[name]}", __package__)
    op: Op = module.OPS[name]
    return op


class Calls:
    """Runs calls, at most eight at a time, and hands their outcomes to the loop."""

    def __init__(
        self,
        selector: selectors.BaseSelector,
        send: Callable[[Frame], None],
        check: Callable[[], None],
        done: Callable[[Frame], None],
    ) -> None:
        """`done` is told of each frame whose op has ended."""
        self._send = send
        self._check = check
        self._done = done
        self._waiting: deque[Frame] = deque()
        self._running = 0
        self._outcomes: deque[Callable[[], None]] = deque()
        self._wake_read, self._wake_write = os.pipe()
        for fd in (self._wake_read, self._wake_write):
            os.set_blocking(fd, False)
        selector.register(self._wake_read, selectors.EVENT_READ, self._collect)

    def take(self, frame: Frame) -> None:
        """Run a `call` now, or once another has ended."""
        self._waiting.append(frame)
        self._start()

    def succeed(self, call: Any, value: Frame) -> None:
        """Answer a call with its value."""
        self._send({"kind": "result", "id": call, "value": value})

    def fail(self, call: Any, exc: BaseException) -> None:
        """Answer a call with its error."""
        error = {
            "type": getattr(exc, "type", type(exc).__name__),
            "message": str(exc) or type(exc).__name__,
            "remedy": getattr(exc, "remedy", None),
        }
        self._send({"kind": "result", "id": call, "error": error})

    def aside(self, work: Callable[[], Frame], then: Callable[[Frame], None]) -> None:
        """Do `work`, which must not fail, in a thread, and `then` in the loop."""

        def run() -> None:
            outcome = work()
            self._hand_over(lambda: then(outcome))

        threading.Thread(target=run, daemon=True).start()

    def _start(self) -> None:
        while self._waiting and self._running < THREADS:
            self._running += 1
            frame = self._waiting.popleft()
            threading.Thread(target=self._work, args=(frame,), daemon=True).start()

    def _work(self, frame: Frame) -> None:
        """In a thread of its own: do the call, hand the outcome to the loop."""
        call = frame.get("id")

        def progress(value: Frame) -> None:
            self._hand_over(lambda: self._send({"kind": "progress", "id": call, "value": value}))

        try:
            self._check()
            value = op_of(str(frame.get("op")))(frame.get("args") or {}, progress)
        except BaseException as exc:  # noqa: BLE001  a thread that dies silently leaves a call open
            failed = exc
            self._hand_over(lambda: self.fail(call, failed))
        else:
            self._hand_over(lambda: self.succeed(call, value))
        self._hand_over(lambda: self._ended(frame))

    def _ended(self, frame: Frame) -> None:
        self._running -= 1
        self._start()
        self._done(frame)

    def _hand_over(self, act: Callable[[], None]) -> None:
        self._outcomes.append(act)
        try:
            os.write(self._wake_write, b"w")
        except BlockingIOError:
            # Full of wake-ups is awake enough.
            pass

    def _collect(self) -> None:
        os.read(self._wake_read, 65536)
        while self._outcomes:
            self._outcomes.popleft()()
