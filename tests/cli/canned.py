"""A daemon with canned answers: the real API server on a real unix socket, in a thread.

Its documents are the ones that the command line's golden outputs are made of.
"""

import asyncio
import os
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from orchestrator.api.location import Location, write_note
from orchestrator.api.messages import DaemonView, Snapshot
from orchestrator.api.server import Archive, LogRange, Server
from orchestrator.core.errors import NoSuchRun, OrchError

STARTED = float(int(time.time()) - 10.5 * 86_400)
"""Ten days and a half ago, so that an age reads `10d ago` however slow a test is."""

VERDICT: dict[str, Any] = {
    "verdict": "crashed",
    "crash": True,
    "signature": "fx_trace_race",
    "title": "FX tracing raced with torch.compile on another thread",
    "severity": "critical",
    "exception": {"type": "RuntimeError", "message": "Detected that you are using FX"},
    "frame": {"file": "torch/fx/_symbolic_trace.py", "line": 807, "function": "trace"},
    "in_app_frame": {"file": "dflash_model.py", "line": 88, "function": "forward"},
    "rank": None,
    "thread": "Thread-3 (draft)",
    "cause": "Two threads traced at once; the tracing flag is one for the process.",
    "next_steps": ["Compile once, before the threads start.", "Or hold a lock around compiling."],
}


def run_view(**changes: Any) -> dict[str, Any]:
    """A run that failed, with what a test wants otherwise."""
    view: dict[str, Any] = {
        "id": "dflash-2",
        "job": "dflash",
        "target": "ct200",
        "state": "failed",
        "attempt": 1,
        "exit_code": 1,
        "signal": None,
        "started_at": STARTED,
        "ended_at": STARTED + 92.5,
        "step": 120,
        "loss": 5.32151,
        "phase": "train",
        "verdict": VERDICT,
        "incident": "i-7f3k",
        "link": "connected",
        "seen_at": STARTED + 100,
        "number": 2,
        "session": "dflash",
        "directory": "/srv/orch/dflash/runs/dflash-2.k3v9",
        "release": "4be1d0",
        "why": "remove the torch.compile wrapper",
        "created_at": STARTED - 2,
        "metrics": {"steps_per_s": 1.5},
        "output_at": STARTED + 92,
        "log_bytes": 51_200,
        "detached": False,
        "forced": False,
        "attempts": [attempt_view()],
        "incident_state": "open",
    }
    return {**view, **changes}


def attempt_view(number: int = 1, **changes: Any) -> dict[str, Any]:
    """Attempt N of that run, which failed."""
    view = {
        "number": number,
        "state": "failed",
        "started_at": STARTED,
        "ended_at": STARTED + 92.5,
        "exit_code": 1,
        "signal": None,
    }
    return {**view, **changes}


def running(**changes: Any) -> dict[str, Any]:
    """The same run while it still lived."""
    alive: dict[str, Any] = {
        "state": "running",
        "exit_code": None,
        "ended_at": None,
        "verdict": None,
    }
    alive |= {"attempts": [attempt_view(state="running", ended_at=None, exit_code=None)]}
    return run_view(**{**alive, "incident": None, "incident_state": None, **changes})


def incident_view(**changes: Any) -> dict[str, Any]:
    """The incident of that run."""
    view = {
        "id": "i-7f3k",
        "run": "dflash-2",
        "job": "dflash",
        "target": "ct200",
        "attempt": 1,
        "signature": "fx_trace_race",
        "severity": "critical",
        "title": VERDICT["title"],
        "state": "open",
        "fingerprint": "v1:abc",
        "family": "fx_race",
        "opened_at": STARTED + 92,
        "updated_at": STARTED + 92,
        "resolved_at": None,
        "occurrences": 1,
        "same_as": "dflash-1",
        "finding": VERDICT,
    }
    return {**view, **changes}


TARGET = {
    "name": "ct200",
    "host": "pve1",
    "transport": "ssh",
    "runtime": "pct",
    "container": "200",
    "link": "connected",
    "seen_at": STARTED + 99,
    "watched": "probe",
    "error": None,
    "gpus": [
        {
            "index": index,
            "uuid": f"GPU-{index}",
            "name": "NVIDIA H100",
            "memory_used_bytes": used,
            "memory_total_bytes": 80 * 1024**3,
            "utilization_percent": use,
            "power_w": 310.4,
            "temperature_c": 61,
            "processes": [
                {
                    "pid": 4242,
                    "start": 77,
                    "run": "dflash-2",
                    "memory_bytes": used,
                    "command": "python3",
                }
            ]
            if used
            else [],
            "extra": {},
        }
        for index, used, use in ((0, 40 * 1024**3, 97.0), (1, 0, 0.0))
    ],
    "gpu_source": "nvml",
    "gpus_at": STARTED + 99,
}

PLAN = {
    "job": "dflash",
    "target": "ct200",
    "release": "4be1d0",
    "current": "99aa00",
    "exists": False,
    "files": 12,
    "files_to_send": 1,
    "files_unchanged": 11,
    "bytes_to_send": 2048,
    "paths": ["trainer/dflash_model.py"],
    "setup": True,
}
DEPLOY: list[dict[str, Any]] = [
    {"kind": "plan", "job": "dflash", "plan": PLAN},
    {
        "kind": "progress",
        "job": "dflash",
        "target": "ct200",
        "stage": "send",
        "sent_bytes": 2048,
        "total_bytes": 2048,
        "bytes_per_s": 1024,
    },
    {
        "kind": "deployed",
        "job": "dflash",
        "target": "ct200",
        "release": "4be1d0",
        "switched": True,
        "seconds": 0.41,
    },
]
PREFLIGHT = {
    "kind": "preflight",
    "checks": [
        {"name": "disk", "ok": True, "text": "80 GiB free", "remedy": None, "critical": True},
        {
            "name": "clock",
            "ok": False,
            "text": "it is 4 s behind",
            "remedy": "Start chrony.",
            "critical": False,
        },
    ],
}
LOG = (
    b"step 1 loss 9.1\n\x1b[31mred\x1b[0m and \x1b]0;title\x07\x1b[2Jclear\nbar 1%\rbar 99%\nend\n"
)


def log_message(content: bytes = LOG, offset: int = 0, attempt: int = 1) -> dict[str, Any]:
    """A `log` message of those bytes."""
    return {
        "kind": "log",
        "attempt": attempt,
        "offset": offset,
        "end": offset + len(content),
        "text": content.decode("utf-8", "replace"),
    }


def releases_there() -> dict[str, Any]:
    """Two releases of a job on its target, and how the older one's last run ended."""
    common = {"files": 12, "bytes": 2048, "by": "ann@desk", "inventory": "ab12", "branch": "main"}
    commit = "e0c8dfe93bdeb1bd9615ec79abbac7c2eeeb2d3b"
    diff = "/srv/orch/dflash/releases/4be1d0/changes.diff"
    good = {"run": "dflash-1", "state": "finished"}
    newest = {"digest": "4be1d0", "at": 1000.0, "in_use": True, "dirty": True, "diff": diff}
    older = {"digest": "99aa00", "at": 900.0, "in_use": False, "dirty": False, "diff": None}
    return {
        **{"job": "dflash", "target": "ct200", "keep": 5, "error": None, "current": "4be1d0"},
        "releases": [
            {**common, **newest, "commit": commit, "untracked": ["a"], "last_run": None},
            {**common, **older, "commit": commit, "untracked": [], "last_run": good},
        ],
    }


class CannedBackend:
    """Answers from a table that a test may change; keeps what it was asked."""

    def __init__(self, location: Location) -> None:
        self.location = location
        self.asked: list[tuple[str, str, dict[str, Any]]] = []
        self.accepted: dict[str, str] = {}
        self.documents: dict[str, dict[str, Any]] = {
            "run": run_view(),
            "runs": {"runs": [running(id="dflash-3", number=3), run_view()]},
            "incidents": {"incidents": [incident_view()]},
            "incident": incident_view(),
            "explain": {"text": "what died\nwhy it died", "markdown": "# what died"},
            "ack": incident_view(state="acknowledged"),
            "wait": {"reached": True, "run": run_view(), "reason": "it ended"},
            "top": {"targets": [TARGET]},
            "doctor": {"checks": deepcopy(PREFLIGHT["checks"])},
            "rollback": {"job": "dflash", "current": "99aa00"},
            "releases-there": {"targets": [releases_there()]},
            "alert-test": {"results": [{"sink": "ops", "ok": True, "text": "HTTP 200"}]},
        }
        self.streams: dict[str, list[Any]] = {
            "deploy": [*DEPLOY, {"kind": "done"}],
            "run": [
                *DEPLOY,
                PREFLIGHT,
                {"kind": "warning", "text": "sink ops is unset"},
                {"kind": "stored", "run": running(state="pending")},
            ],
            "follow": [
                {"kind": "run", "run": running()},
                log_message(),
                {"kind": "incident", "incident": incident_view()},
                {"kind": "end", "run": run_view()},
            ],
            "search": [{"kind": "none", "attempt": 1}],
            "stop": [
                {"kind": "stopping", "run": running()},
                {
                    "kind": "stopped",
                    "run": run_view(state="stopped"),
                    "ended": [4242, 4243, 4244],
                    "remaining": [],
                    "gpus": [0, 1, 2, 3, 4, 5, 6, 7],
                    "gpus_free_after_s": 3.2,
                    "gpu_holders": [],
                },
            ],
        }
        self.successive: dict[str, list[dict[str, Any]]] = {}
        """Documents that are given first, one a call."""
        self.raises: dict[str, OrchError] = {}
        self.needs = ["ORCH_WEBHOOK_URL"]
        self.outdated = False
        self.end_asked = threading.Event()

    async def daemon_view(self) -> DaemonView:
        return {
            "running": True,
            "pid": 4711,
            "socket": str(self.location.socket),
            "inventory": "/home/me/inventory.yaml",
            "inventory_error": None,
            "state_folder": "/home/me/.local/state/orch/x",
            "needs": [name for name in self.needs if name not in self.accepted],
            "wants": self.needs,
            "outdated": self.outdated,
            "sinks": [
                {"name": "ops", "type": "webhook", "state": "unset", "error": None, "pending": 2}
            ],
        }

    def ask_to_end(self) -> None:
        self.end_asked.set()

    def accept_environment(self, values: Mapping[str, str]) -> dict[str, Any]:
        self.accepted.update(values)
        return {"accepted": sorted(values), "replaced": []}

    async def snapshot(self, since: int | None) -> Snapshot:
        self.asked.append(("snapshot", str(since), {}))
        return {
            "cursor": 17,
            "at": STARTED + 100,
            "daemon": await self.daemon_view(),
            "targets": [TARGET],  # type: ignore[list-item]  # canned
            "runs": self.documents["runs"]["runs"],
            "incidents": [incident_view()],  # type: ignore[list-item]  # canned
        }

    async def changes(self, since: int) -> AsyncGenerator[Snapshot, None]:
        yield await self.snapshot(since)

    async def elsewhere(self, words: str, what: str) -> None:
        """No other daemon shares the fleet."""

    def _note(self, what: str, words: str, said: Mapping[str, Any]) -> None:
        self.asked.append((what, words, dict(said)))
        if what in self.raises:
            raise self.raises[what]
        if words == "nope":
            raise NoSuchRun("There is no run nope.", remedy="`orch ps -a` lists them all.")

    async def get(self, what: str, words: str, query: Mapping[str, str]) -> dict[str, Any]:
        self._note(what, words, query)
        if self.successive.get(what):
            return self.successive[what].pop(0)
        return self.documents[what]

    async def log_range(self, words: str, query: Mapping[str, str]) -> LogRange:
        self._note("log", words, query)
        offset = int(query.get("offset", 0))
        if "tail" in query:
            kept = LOG.splitlines(keepends=True)[-int(query["tail"]) :]
            offset = len(LOG) - len(b"".join(kept))
        # A few bytes at a time, so that a client must ask more than once.
        chunk = LOG[offset : offset + min(20, int(query["size"]))]
        return LogRange(attempt=1, offset=offset, size=len(LOG), chunk=chunk)

    async def archive(self, words: str) -> Archive:
        self._note("archive", words, {})
        facts = {"name": "../x.tar.gz", "files": ["run.json"], "secrets_removed": 2}
        return Archive(facts=facts, content=b"gz")

    async def stream(
        self, what: str, words: str, body: Mapping[str, Any]
    ) -> AsyncIterator[dict[str, Any]]:
        self._note(what, words, body)
        for message in self.streams[what]:
            if isinstance(message, OrchError):
                raise message
            if message == "wait":
                await asyncio.sleep(3600)
            if isinstance(message, float):
                await asyncio.sleep(message)
                continue
            if message == "cut":
                raise ConnectionResetError
            yield message

    async def act(self, what: str, words: str, body: Mapping[str, Any]) -> dict[str, Any]:
        self._note(what, words, body)
        return self.documents[what]

    def covered(self, answer: bytes, *, is_json: bool) -> bytes:
        return answer

    def metrics_text(self) -> str:
        return "orch_runs 1\n"


class CannedDaemon:
    """Serves a CannedBackend from a thread; a context."""

    def __init__(self, location: Location, backend: CannedBackend | None = None) -> None:
        self.location = location
        self.backend = backend or CannedBackend(location)
        self._loop = asyncio.new_event_loop()
        self._server = Server(self.backend)
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> "CannedDaemon":
        for folder in (self.location.state_folder, self.location.socket.parent):
            folder.mkdir(parents=True, exist_ok=True)
        write_note(self.location, os.getpid())
        self._thread.start()
        self._call(self._server.start(Path(self.location.socket)))
        return self

    def __exit__(self, *_: object) -> None:
        self._call(self._server.stop())
        self._call(self._end_tasks())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=30)
        self._loop.close()
        self.location.socket.unlink(missing_ok=True)

    async def _end_tasks(self) -> None:
        """End the calls that a test left hanging."""
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _call(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(timeout=30)
