"""The probe: answers calls and sends what it watches, as frames on stdin and stdout.

One thread owns all state; what may take long runs in threads that only hand back a result.
Ends at the end of stdin, after SILENCE_LIMIT_S without a frame (BULK_SILENCE_LIMIT_S where it is
for one transfer), or when a newer probe evicts it; no run hangs on it.
"""

import os
import selectors
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import procfs
from .calls import Calls, op_of
from .clean_env import clean_own_environment
from .errors import BadCall, Refused
from .fence import Fence, Fenced
from .frames import BULK, BULK_SILENCE_LIMIT_S, SILENCE_LIMIT_S, VERSION, Frame
from .lock import take
from .names import KERNEL_LOG
from .pace import next_look
from .watches import Watches
from .wire import Wire

if TYPE_CHECKING:
    from .kernel import KernelLog

NO_DRIVER_TIMES = 15
"""So many times as seldom is looked for GPUs where there is no driver of them."""


def main(generation: int, key: str) -> int:
    """Serve until the daemon goes; 0 then, 1 where a newer probe is there."""
    clean_own_environment()
    fence = Fence(key, generation)
    probe = Probe(generation, *_own_pipes(), fence=fence, silence_s=silence_of(key))
    probe.greet()
    try:
        lock = take(key, generation)
        fence.raise_bar()
    except (Refused, Fenced) as exc:
        print(f"orch probe: {exc}", file=sys.stderr)  # noqa: T201  stdout belongs to the frames
        return 1
    try:
        probe.serve()
    finally:
        os.close(lock)
    # Threads of calls nobody waits for any more must not keep the probe alive.
    sys.stderr.flush()
    os._exit(0)


def silence_of(key: str) -> float:
    """Seconds without a frame that end the probe of a key."""
    return BULK_SILENCE_LIMIT_S if BULK in key else SILENCE_LIMIT_S


def _own_pipes() -> tuple[int, int]:
    """The frames' pipes, out of reach of whatever an op starts.

    A command that read our stdin would eat frames, and one that printed would break them.
    """
    pipes = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return pipes


class Probe:
    """One probe and its loop."""

    def __init__(
        self,
        generation: int,
        stdin: int,
        stdout: int,
        *,
        fence: Fence,
        silence_s: float,
    ) -> None:
        self._generation = generation
        self._silence_s = silence_s
        self._selector = selectors.DefaultSelector()
        self._wire = Wire(
            self._selector, stdin, stdout, self._take, lambda exc: self._calls.fail(None, exc)
        )
        self._calls = Calls(self._selector, self._wire.send, fence.check, self._wire.take_back)
        self._watches = Watches(self._selector, self._wire.send)
        self._kernel: KernelLog | None = None
        self._gpu_interval_s = 0.0
        self._gpu_next = 0.0
        self._gpu_sampling = False
        self._gpu_args: Frame = {}
        self._gpus: Frame | None = None
        """Sampled, and not told yet."""
        self._tell_gpus_at = 0.0
        self._own_ops: dict[str, Callable[[Frame], None]] = {
            "watch": self._watches.add,
            "unwatch": lambda args: self._watches.remove(args["watch"]),
            "kernel": self._follow_kernel,
        }

    def greet(self) -> None:
        """Send `hello`, before anything that could take time."""
        self._wire.send(
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
                "features": ["kernel"] if os.access(KERNEL_LOG, os.R_OK) else [],
            }
        )
        self._wire.flush()

    def serve(self) -> None:
        """Until the daemon goes away or falls silent."""
        while self._wire.open and time.monotonic() < self._wire.heard_at + self._silence_s:
            for ready, _ in self._selector.select(self._wait_s()):
                # One that was unregistered by an earlier one of this round is of the past.
                if self._selector.get_map().get(ready.fd) is ready:
                    ready.data()
            now = time.monotonic()
            self._watches.look(now)
            self._sample_gpus(now)
            self._tell_gpus(now)
            self._watches.pump(lambda: self._wire.congested)
            self._wire.flush()
        self._watches.clear()
        if self._kernel is not None:
            self._kernel.stop()

    def _wait_s(self) -> float:
        if self._watches.ready and not self._wire.congested:
            return 0.0
        until = [self._wire.heard_at + self._silence_s]
        if self._watches.next_at is not None:
            until.append(self._watches.next_at)
        if self._gpu_interval_s and not self._gpu_sampling:
            until.append(self._gpu_next)
        if self._gpus is not None:
            until.append(self._tell_gpus_at)
        return max(0.0, min(until) - time.monotonic())

    def _take(self, frame: Frame) -> None:
        match frame["kind"]:
            case "ping":
                self._wire.send({"kind": "pong", "n": frame.get("n")})
                self._wire.rest()
            case "ack":
                self._watches.acknowledge(frame)
            case "call":
                self._call(frame.get("id"), str(frame.get("op")), frame)
            case other:
                exc = BadCall(f"There is no frame `{other}` from daemon to probe.")
                self._calls.fail(None, exc)

    def _call(self, call: Any, op: str, frame: Frame) -> None:
        if op == "gpus" and "interval_s" in (frame.get("args") or {}):
            self._gpu_args = frame["args"]
            self._gpu_interval_s = float(self._gpu_args.get("interval_s") or 0.0)
            self._gpu_next = time.monotonic() + self._gpu_interval_s
        own = self._own_ops.get(op)
        if own is None:
            self._calls.take(frame)
            return
        try:
            own(frame.get("args") or {})
        except Exception as exc:  # noqa: BLE001  whatever a call does must not end the probe
            self._calls.fail(call, exc)
        else:
            self._calls.succeed(call, {})

    def _follow_kernel(self, args: Frame) -> None:
        if self._kernel is None:
            # Few probes are asked, and each start of one would pay for its patterns.
            from .kernel import KernelLog

            self._kernel = KernelLog(self._selector, self._wire.send)
        self._kernel.follow(args)

    def _sample_gpus(self, now: float) -> None:
        due = self._gpu_interval_s and now >= self._gpu_next and not self._gpu_sampling
        if not due or self._wire.congested:
            return
        self._gpu_sampling = True
        self._gpu_next = now + self._gpu_interval_s
        args = self._gpu_args
        self._calls.aside(lambda: _gpu_frame(args), self._gpus_sampled)

    def _gpus_sampled(self, frame: Frame) -> None:
        self._gpu_sampling = False
        if frame["source"] is None and not frame["error"]:
            self._gpu_next += (NO_DRIVER_TIMES - 1) * self._gpu_interval_s
        if self._gpu_interval_s:
            # With the lines of that moment: by themselves they would wake the daemon once more.
            self._gpus = {"kind": "gpus", "t": time.time(), **frame}
            self._tell_gpus_at = next_look(time.monotonic())

    def _tell_gpus(self, now: float) -> None:
        if self._gpus is not None and now >= self._tell_gpus_at:
            self._wire.send(self._gpus)
            self._gpus = None


def _gpu_frame(args: Frame) -> Frame:
    try:
        return op_of("gpus")(args, lambda _: None)
    except Exception as exc:  # noqa: BLE001  said in the frame; the stream goes on
        return {"source": None, "samples": [], "error": str(exc)}


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
