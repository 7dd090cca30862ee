"""Drives a real probe, packed as it is shipped, over pipes."""

import functools
import os
import secrets
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orchestrator.link.answers import wrong_answer, wrong_progress
from orchestrator.link.shapes import require_frame
from orchestrator.probe.frames import BadFrame, Frame, decode, encode, unpack

WITHIN_S = 30.0


@functools.cache
def python310() -> str | None:
    """A real Python 3.10, the oldest the probe runs on; None where there is none."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [str(path) for path in sorted(pyenv.glob("3.10*/bin/python"))]
    found += filter(None, [shutil.which("python3.10")])
    if shutil.which("uv"):
        uv = subprocess.run(
            ["uv", "python", "find", "3.10"], check=False, capture_output=True, text=True
        )
        found += filter(None, [uv.stdout.strip()])
    for path in found:
        said = subprocess.run(
            [path, "-I", "-S", "-c", "import sys; print(sys.version_info[:2] == (3, 10))"],
            check=False,
            capture_output=True,
            text=True,
        )
        if said.stdout.strip() == "True":
            return path
    return None


def eventually(true: Callable[[], Any], what: str, within_s: float = WITHIN_S) -> Any:
    """The first true value of `true`; fails with `what` after the deadline."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        value = true()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"not within {within_s} s: {what}")


class Driver:
    """One probe; keeps its frames as they come, and acknowledges bytes unless told not to."""

    def __init__(
        self,
        python: str,
        pyz: Path,
        env: dict[str, str],
        *,
        generation: int = 1,
        key: str = "test",
        acknowledge: bool = True,
    ) -> None:
        argv = [
            python,
            "-I",
            "-S",
            str(pyz),
            "serve",
            "--generation",
            str(generation),
            "--key",
            key,
        ]
        self.started = time.monotonic()
        self.popen = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
        )
        self.frames: list[Frame] = []
        self.acknowledge = acknowledge
        self.refused: list[str] = []
        """What the other end of the link would not take: nothing, of a probe's own frames."""
        self._calls = 0
        self._ops: dict[int, str] = {}
        self._news = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.popen.stdout is not None
        for line in self.popen.stdout:
            try:
                frame = decode(line)
            except ValueError:
                break  # cut in the middle by the end of the probe
            self._judge(frame, len(line))
            with self._news:
                self.frames.append(frame)
                self._news.notify_all()
            if frame["kind"] == "bytes" and self.acknowledge:
                self.ack(frame)
        with self._news:
            self._closed = True
            self._news.notify_all()

    def _judge(self, frame: Frame, num_bytes: int) -> None:
        op = self._ops.get(frame.get("id", 0), "")
        wrong = None
        try:
            require_frame(frame, num_bytes)
        except BadFrame as exc:
            wrong = str(exc)
        if frame["kind"] == "result" and "value" in frame and "raw" not in frame:
            wrong = wrong_answer(op, frame["value"])
        elif frame["kind"] == "progress":
            wrong = wrong_progress(op, frame.get("value"))
        if wrong is not None:
            self.refused.append(f"{op}: {wrong}")

    def ack(self, frame: Frame) -> None:
        """Say that the bytes of a frame are stored."""
        end = frame["offset"] + len(unpack(frame["data"]))
        ack = {"kind": "ack", "watch": frame["watch"], "stream": frame["stream"], "offset": end}
        self.send(ack)

    def send(self, frame: Frame) -> None:
        """One frame to the probe, which may have gone."""
        assert self.popen.stdin is not None
        try:
            self.popen.stdin.write(encode(frame))
            self.popen.stdin.flush()
        except (BrokenPipeError, ValueError):
            pass

    def until(self, wanted: Callable[[Frame], Any], within_s: float = WITHIN_S) -> Frame:
        """The first frame for which `wanted` is true."""
        deadline = time.monotonic() + within_s
        seen = 0
        with self._news:
            while True:
                for frame in self.frames[seen:]:
                    if wanted(frame):
                        return frame
                seen = len(self.frames)
                left = deadline - time.monotonic()
                if left <= 0 or self._closed:
                    brief = [str(f)[:200] for f in self.frames[-5:]]
                    raise AssertionError(f"the frame never came; the newest are {brief}")
                self._news.wait(left)

    def kind(self, kind: str, **fields: object) -> Frame:
        """The first frame of a kind with these fields."""
        return self.until(
            lambda f: f["kind"] == kind and all(f.get(k) == v for k, v in fields.items())
        )

    def post(self, op: str, **args: object) -> int:
        """Make a call and return its id."""
        self._calls += 1
        self._ops[self._calls] = op
        self.send({"kind": "call", "id": self._calls, "op": op, "args": args})
        return self._calls

    def result(self, op: str, **args: object) -> Frame:
        """The whole `result` frame of a call."""
        return self.kind("result", id=self.post(op, **args))

    def call(self, op: str, **args: object) -> Frame:
        """The value of a call that succeeds."""
        frame = self.result(op, **args)
        assert "value" in frame, frame
        value: Frame = frame["value"]
        return value

    def until_stream(self, watch: str, wanted: Callable[[bytes], Any], stream: str = "log") -> None:
        """Wait until a stream is as wanted; fails at once where the attempt ends before."""

        def enough(frame: Frame) -> bool:
            if wanted(self.stream(watch, stream)):
                return True
            over = frame["kind"] in {"exit", "gone"} and frame["watch"] == watch
            assert not over, f"{frame} after {self.stream(watch, stream)[-500:]!r}"
            return False

        self.until(enough)

    def stream(self, watch: str, stream: str = "log") -> bytes:
        """All bytes of a stream so far; fails where they overlap or leave a hole."""
        chunks = []
        following = None
        for frame in list(self.frames):
            if frame["kind"] == "bytes" and (frame["watch"], frame["stream"]) == (watch, stream):
                chunk = unpack(frame["data"])
                assert following in {None, frame["offset"]}, "bytes are missing or doubled"
                following = frame["offset"] + len(chunk)
                chunks.append(chunk)
        return b"".join(chunks)

    def close(self) -> int:
        """End it by the end of its stdin; its exit status."""
        if self.popen.stdin is not None:
            try:
                self.popen.stdin.close()
            except BrokenPipeError:
                pass
        try:
            status = self.popen.wait(WITHIN_S)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            raise
        self._thread.join(WITHIN_S)
        for pipe in (self.popen.stdout, self.popen.stderr):
            if pipe is not None:
                pipe.close()
        assert self.refused == []
        return status


class Run:
    """A run's folder on this machine, and the words that launch an attempt of it."""

    def __init__(self, root: Path, job: str = "job", number: int = 1) -> None:
        self.run = f"{job}-{number}"
        # Tests run side by side, and `end` looks at everything on the machine.
        self.uid = secrets.token_hex(4)
        self.job = job
        self.root = root
        self.directory = root / "runs" / f"{self.run}.{self.uid}"
        self.directory.mkdir(parents=True)

    def attempt(self, number: int = 1) -> Path:
        """Folder of an attempt."""
        return self.directory / str(number)

    def spec(self, *argv: str, number: int = 1, **more: object) -> dict[str, Any]:
        """A LaunchSpec."""
        return {
            "run": self.run,
            "uid": self.uid,
            "attempt": number,
            "run_dir": str(self.directory),
            "attempt_dir": str(self.attempt(number)),
            "session": self.job,
            "argv": list(argv),
            "cwd": str(self.root),
            **more,
        }

    def watch(self, number: int = 1, **more: object) -> dict[str, Any]:
        """Arguments of a `watch` of the attempt, named after the run."""
        return {
            "watch": self.run,
            "attempt_dir": str(self.attempt(number)),
            "metrics_path": str(self.directory / "metrics.jsonl"),
            **more,
        }

    def end(self, number: int = 1, grace_s: float = 10.0) -> dict[str, Any]:
        """Arguments of an `end` of the attempt."""
        return {
            "run": self.run,
            "uid": self.uid,
            "session": self.job,
            "attempt_dir": str(self.attempt(number)),
            "grace_s": grace_s,
        }

    def log(self, number: int = 1) -> bytes:
        """The attempt's log file."""
        return (self.attempt(number) / "output.log").read_bytes()
