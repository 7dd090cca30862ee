"""The probe: answers calls and sends what it watches, as frames on stdin and stdout.

One thread owns all state; what may take long runs in threads that only hand back a result.
Ends at the end of stdin, after 30 s without a frame, or when a newer probe evicts it; no run
hangs on it.
"""

import os
import selectors
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from importlib import import_module
from typing import Any

from . import procfs
from .clean_env import clean_own_environment
from .errors import BadCall, Refused
from .frames import SILENCE_LIMIT_S, VERSION, BadFrame, Frame, decode, encode
from .lock import take
from .ops import Op
from .watch import Watch

OP_MODULES = {
    "launch": "launch",
    "end": "ending",
    "signal": "ending",
    "read": "reading",
    "processes": "processes",
    "sessions": "tmux",
    "gpus": "gpus",
    "preflight": "preflight",
    "release_offer": "release",
    "release_blobs": "release",
    "release_commit": "release",
    "release_abandon": "release",
    "release_list": "release",
    "release_switch": "release",
    "release_prune": "release",
    "environment": "environment",
}
"""Where each op is; its module is imported when it is first called."""

OUT_BYTES = 1024 * 1024
"""With more than this on its way out, nothing is read from followed files, no sample is taken."""
IN_BYTES = 1024 * 1024
THREADS = 8
LOOK_S = 1.0
POLL_S = 0.1


def main(generation: int, key: str) -> int:
    """Serve until the daemon goes; 0 then, 1 where a newer probe is there."""
    clean_own_environment()
    probe = Probe(generation)
    probe.greet()
    try:
        lock = take(key, generation)
    except Refused as exc:
        print(f"orch probe: {exc}", file=sys.stderr)  # noqa: T201  stdout belongs to the frames
        return 1
    try:
        probe.serve()
    finally:
        os.close(lock)
    # Threads of calls nobody waits for any more must not keep the probe alive.
    sys.stderr.flush()
    os._exit(0)


class Probe:
    """State of one probe and its loop."""

    def __init__(
        self,
        generation: int,
        stdin: int = 0,
        stdout: int = 1,
        *,
        silence_s: float = SILENCE_LIMIT_S,
    ) -> None:
        self._generation = generation
        self._silence_s = silence_s
        self._stdin = stdin
        self._stdout = stdout
        self._in = bytearray()
        self._out = bytearray()
        self._heard = time.monotonic()
        self._open = True
        self._selector = selectors.DefaultSelector()
        self._watches: dict[str, Watch] = {}
        self._watch_fds: dict[int, str] = {}
        self._folders: dict[int, set[str]] = {}
        self._inotify: Any = None
        self._next_look = time.monotonic() + LOOK_S
        self._calls: deque[Frame] = deque()
        self._running = 0
        self._finished: deque[Callable[[], None]] = deque()
        self._wake_read, self._wake_write = os.pipe()
        self._gpu_interval_s = 0.0
        self._gpu_next = 0.0
        self._gpu_sampling = False
        for fd in (stdin, stdout, self._wake_read, self._wake_write):
            os.set_blocking(fd, False)
        self._selector.register(stdin, selectors.EVENT_READ)
        self._selector.register(self._wake_read, selectors.EVENT_READ)

    # --- frames out ------------------------------------------------------------------------------

    def greet(self) -> None:
        """Send `hello`, before anything that could take time."""
        self._send(
            {
                "kind": "hello",
                "v": VERSION,
                "probe": os.path.basename(sys.argv[0]),
                "python": ".".join(map(str, sys.version_info[:3])),
                "pid": os.getpid(),
                "boot_id": procfs.boot_id(),
                "hostname": os.uname().nodename,
                "tmux": _tmux_version(),
                "generation": self._generation,
                "time": time.time(),
                "features": ["pidfd"] if hasattr(os, "pidfd_open") else [],
            }
        )
        self._flush()

    def _send(self, frame: Frame) -> None:
        self._out += encode(frame)

    def _flush(self) -> None:
        while self._out:
            try:
                written = os.write(self._stdout, self._out)
            except BlockingIOError:
                return
            except OSError:
                self._open = False
                return
            del self._out[:written]

    # --- the loop --------------------------------------------------------------------------------

    def serve(self) -> None:
        """Until the daemon goes away or falls silent."""
        while self._open and time.monotonic() - self._heard < self._silence_s:
            self._want_stdout(bool(self._out))
            for ready, _ in self._selector.select(self._wait_s()):
                self._stirred(ready.fd)
            self._on_time(time.monotonic())
            self._pump()
            self._flush()
        for watch in self._watches.values():
            watch.close()

    def _want_stdout(self, wanted: bool) -> None:
        registered = self._stdout in self._selector.get_map()
        if wanted and not registered:
            self._selector.register(self._stdout, selectors.EVENT_WRITE)
        elif registered and not wanted:
            self._selector.unregister(self._stdout)

    def _wait_s(self) -> float:
        if len(self._out) < OUT_BYTES and any(w.ready for w in self._watches.values()):
            return 0.0
        now = time.monotonic()
        until = [self._heard + self._silence_s]
        if self._watches:
            until.append(self._next_look)
        if self._gpu_interval_s and not self._gpu_sampling:
            until.append(self._gpu_next)
        return max(0.0, min(until) - now)

    def _stirred(self, fd: int) -> None:
        if fd == self._stdin:
            self._receive()
        elif fd == self._stdout:
            self._flush()
        elif fd == self._wake_read:
            self._collect()
        elif self._inotify is not None and fd == self._inotify.fd:
            for number in self._inotify.changed():
                for name in self._folders.get(number, ()):
                    self._watches[name].stir()
        elif fd in self._watch_fds:
            self._watch_stirred(fd)

    def _watch_stirred(self, fd: int) -> None:
        watch = self._watches[self._watch_fds[fd]]
        if fd == watch.poke_fd:
            watch.poked()
        else:
            # The relay has ended: its descriptor stays readable, so it is listened to once.
            self._forget_fd(fd)
            watch.stir()

    def _on_time(self, now: float) -> None:
        if now >= self._next_look:
            # Pokes and inotify can be missed (a full pipe, a limit); a look a second cannot.
            self._next_look = now + (LOOK_S if self._inotify is not None else POLL_S)
            for watch in self._watches.values():
                watch.stir()
        due = self._gpu_interval_s and now >= self._gpu_next and not self._gpu_sampling
        if due and len(self._out) < OUT_BYTES:
            self._sample_gpus(now)

    def _pump(self) -> None:
        """One chunk of each watch in turn while there is room: no flood starves another."""
        for name in list(self._watches):
            if len(self._out) >= OUT_BYTES:
                return
            watch = self._watches.pop(name)
            # Reinserted behind the others, so that the next round begins with them.
            self._watches[name] = watch
            if watch.ready:
                for frame in watch.step():
                    self._send(frame)
                if watch.over:
                    self._unwatch(name)

    # --- frames in -------------------------------------------------------------------------------

    def _receive(self) -> None:
        try:
            chunk = os.read(self._stdin, IN_BYTES)
        except BlockingIOError:
            return
        if not chunk:
            self._open = False
            return
        searched = len(self._in)
        self._in += chunk
        end = self._in.find(b"\n", searched)
        while end >= 0:
            line = bytes(self._in[:end])
            del self._in[: end + 1]
            self._heard = time.monotonic()
            try:
                self._take(decode(line))
            except BadFrame as exc:
                self._fail(None, exc)
            end = self._in.find(b"\n")

    def _take(self, frame: Frame) -> None:
        match frame["kind"]:
            case "ping":
                self._send({"kind": "pong", "n": frame.get("n")})
            case "ack":
                watch = self._watches.get(frame.get("watch", ""))
                if watch is not None:
                    watch.acknowledge(frame["stream"], int(frame["offset"]))
            case "call":
                self._call(frame)
            case other:
                self._fail(None, BadCall(f"There is no frame `{other}` from daemon to probe."))

    def _call(self, frame: Frame) -> None:
        call, op, args = frame.get("id"), frame.get("op"), frame.get("args") or {}
        try:
            if op == "watch":
                self._watch(args)
                self._result(call, {})
            elif op == "unwatch":
                self._unwatch(args["watch"])
                self._result(call, {})
            else:
                if op == "gpus":
                    self._gpu_interval_s = float(args.get("interval_s") or 0.0)
                    self._gpu_next = time.monotonic() + self._gpu_interval_s
                self._calls.append(frame)
                self._start_calls()
        except Exception as exc:  # noqa: BLE001  whatever a call does must not end the probe
            self._fail(call, exc)

    def _result(self, call: Any, value: Frame) -> None:
        self._send({"kind": "result", "id": call, "value": value})

    def _fail(self, call: Any, exc: BaseException) -> None:
        error = {
            "type": getattr(exc, "type", type(exc).__name__),
            "message": str(exc) or type(exc).__name__,
            "remedy": getattr(exc, "remedy", None),
        }
        self._send({"kind": "result", "id": call, "error": error})

    # --- calls that take long --------------------------------------------------------------------

    def _start_calls(self) -> None:
        while self._calls and self._running < THREADS:
            self._running += 1
            frame = self._calls.popleft()
            threading.Thread(target=self._work, args=(frame,), daemon=True).start()

    def _work(self, frame: Frame) -> None:
        """In a thread of its own: do the call, hand the outcome to the loop."""
        call = frame.get("id")

        def progress(value: Frame) -> None:
            self._hand_over(lambda: self._send({"kind": "progress", "id": call, "value": value}))

        try:
            value = op_of(frame["op"])(frame.get("args") or {}, progress)
        except BaseException as exc:  # noqa: BLE001  a thread that dies silently leaves a call open
            failed = exc
            self._hand_over(lambda: self._fail(call, failed))
        else:
            self._hand_over(lambda: self._result(call, value))
        self._hand_over(self._work_done)

    def _work_done(self) -> None:
        self._running -= 1
        self._start_calls()

    def _hand_over(self, act: Callable[[], None]) -> None:
        self._finished.append(act)
        try:
            os.write(self._wake_write, b"w")
        except BlockingIOError:
            # Full of wake-ups is awake enough.
            pass

    def _collect(self) -> None:
        os.read(self._wake_read, 65536)
        while self._finished:
            self._finished.popleft()()

    def _sample_gpus(self, now: float) -> None:
        self._gpu_sampling = True
        self._gpu_next = now + self._gpu_interval_s

        def sample() -> None:
            try:
                frame = op_of("gpus")({}, lambda _: None)
            except Exception as exc:  # noqa: BLE001  said in the frame; the stream goes on
                frame = {"source": None, "samples": [], "error": str(exc)}
            self._hand_over(lambda: self._gpus_sampled(frame))

        threading.Thread(target=sample, daemon=True).start()

    def _gpus_sampled(self, frame: Frame) -> None:
        self._gpu_sampling = False
        if self._gpu_interval_s:
            self._send({"kind": "gpus", "t": time.time(), **frame})

    # --- watches ---------------------------------------------------------------------------------

    def _watch(self, args: Frame) -> None:
        name = args["watch"]
        self._unwatch(name)
        watch = Watch(
            name,
            args["attempt_dir"],
            log_offset=int(args.get("log_offset") or 0),
            metrics_path=args.get("metrics_path"),
            metrics_offset=int(args.get("metrics_offset") or 0),
        )
        self._watches[name] = watch
        for fd in watch.fds():
            self._watch_fds[fd] = name
            self._selector.register(fd, selectors.EVENT_READ)
        for folder in watch.folders:
            self._listen(folder, name)

    def _listen(self, folder: str, name: str) -> None:
        try:
            if self._inotify is None:
                from .inotify import Inotify

                self._inotify = Inotify()
                self._selector.register(self._inotify.fd, selectors.EVENT_READ)
            self._folders.setdefault(self._inotify.add(folder), set()).add(name)
        except OSError:
            # No instance left, or no such folder yet: the look every so often has to do.
            pass

    def _unwatch(self, name: str) -> None:
        watch = self._watches.pop(name, None)
        if watch is None:
            return
        for fd in watch.fds():
            self._forget_fd(fd)
        for number in [n for n, names in self._folders.items() if name in names]:
            self._folders[number].discard(name)
            if not self._folders[number]:
                del self._folders[number]
                self._inotify.remove(number)
        watch.close()

    def _forget_fd(self, fd: int) -> None:
        if self._watch_fds.pop(fd, None) is not None:
            self._selector.unregister(fd)


def op_of(name: str) -> Op:
    """The function of an op; its module is imported now if it was not yet."""
    if name not in OP_MODULES:
        raise BadCall(f"This probe has no op `{name}`.", remedy="Restart the daemon.")
    module = import_module(f".{OP_MODULES[name]}", __package__)
    op: Op = module.OPS[name]
    return op


def _tmux_version() -> str | None:
    """As tmux says it; None where there is none. No subprocess module: it costs 10 ms."""
    read, write = os.pipe()
    try:
        pid = os.posix_spawnp(
            "tmux", ["tmux", "-V"], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, write, 1)]
        )
    except OSError:
        os.close(read)
        return None
    finally:
        os.close(write)
    with open(read, "rb") as file:
        words = file.read(200).split()
    os.waitpid(pid, 0)
    return words[-1].decode("ascii", "replace") if words else None
