"""The relay's own alert, where no daemon took note of a bad end in time (`wrapper_alert: true`).

A daemon that died, or whose machine sleeps, cannot say so itself. Owns the wait, the body and its
signature (docs/alerts.md). Forked off the relay, so that the pane is free; addresses and secrets
are in memory alone. Stdlib only; nothing of the zipapp is imported late, for it may be gone.
"""

import base64
import hashlib
import hmac
import json
import os
import re
import signal
import time
from datetime import datetime, timezone
from typing import Any
from urllib.parse import unquote, urlsplit

from .awaited import forget
from .files import reserve, write_reserved
from .names import AWAITED_FILE, LOG_FILE, OWN_ALERT_FILE
from .opening import open_file
from .spec import Spec

LOOK_S = 1.0
DEADLINE_S = 15.0
PAUSES_S = (5.0, 15.0, 60.0, 300.0, 900.0)
"""Before each further try; after the last one the alert is given up."""
TAIL_BYTES = 64 * 1024
MOST_LINES = 10
MOST_CHARS = 500
LEAST_COVERED = 4
_NOT_ENDED = "0001-01-01T00:00:00Z"

Record = dict[str, Any]


class OwnAlert:
    """What one attempt's relay may have to say itself; made before its program starts."""

    def __init__(self, directory: str, spec: Spec) -> None:
        """OSError where the folder cannot be written."""
        self._directory = directory
        self._spec = spec
        self._told: Record = spec["own_alert"]
        self._record_path = os.path.join(directory, OWN_ALERT_FILE)
        self._reserved = reserve(self._record_path)
        self._log_path = os.path.join(directory, LOG_FILE)
        self._awaited = os.path.join(directory, AWAITED_FILE)
        os.close(open_file(self._awaited, os.O_WRONLY | os.O_CREAT))

    def leave_behind(self, record: Record) -> None:
        """Wait in a process of its own, which holds neither the pane nor the terminal."""
        try:
            pid = os.fork()
        except OSError:
            # No process to be had: the end is in the record all the same.
            return
        if pid == 0:
            try:
                _let_go_of_everything()
                self._wait_and_tell(record)
            finally:
                os._exit(0)

    def forget(self) -> None:
        """Nothing is to be told: what was made for it goes."""
        try:
            forget(self._directory)
        except OSError:
            # A disk that refuses: who acknowledges it tries again.
            pass

    def _wait_and_tell(self, record: Record) -> None:
        ident = self._told["id"]
        waiting = {sink["name"]: sink for sink in self._told["sinks"]}
        said: Record = {"id": ident, "sinks": {}}
        alert = self._alert(record)
        for pause in (float(self._told["within_s"]), *PAUSES_S):
            if not self._still_awaited(pause):
                self.forget()
                return
            # Written before it is sent: a daemon that comes back meanwhile takes over this id.
            self._keep(said)
            for name, sink in list(waiting.items()):
                over, answer = _post(sink, ident, _body(sink, ident, alert))
                said["sinks"][name] = answer
                if over:
                    del waiting[name]
            self._keep(said)
            if not waiting:
                return

    def _still_awaited(self, over_s: float) -> bool:
        """Whether nobody has taken note of the end when that time is over."""
        deadline = time.monotonic() + over_s
        while os.path.exists(self._awaited):
            left = deadline - time.monotonic()
            if left <= 0:
                return True
            time.sleep(min(LOOK_S, left))
        return False

    def _keep(self, said: Record) -> None:
        try:
            write_reserved(self._reserved, self._record_path, said)
        except OSError:
            # A full disk, or a folder that was pruned: whoever waits is told all the same.
            pass

    def _alert(self, record: Record) -> Record:
        name, title = ended(record)
        run, labels = self._spec["run"], self._told["labels"]
        within = f"{self._told['within_s']:g} s"
        words = [
            f"The run's own relay says so, since no daemon took note of it within {within}.",
            "Nothing more is known and nothing is started again until one does.",
        ]
        if record.get("oom_kills"):
            words.insert(0, f"The kernel killed {record['oom_kills']} of its programs for memory.")
        return {
            "status": "firing",
            "labels": {**labels, "alertname": name, "severity": "critical"},
            "annotations": {
                "summary": f"{run} on {labels['target']}: {title}; no daemon saw it",
                "description": " ".join(words),
                "evidence": self._evidence(),
                "traceback": "",
                "thread": "",
                "next_steps": "1. Wake the machine of the daemon: `orch daemon status` there.\n"
                f"2. `orch explain {run}` says what died, once it has read the log.",
                "same_as": "",
                "command": f"orch explain {run}",
            },
            "startsAt": _utc(record["ended_at"]),
            "endsAt": _NOT_ENDED,
            "generatorURL": "",
            "fingerprint": hashlib.sha256(f"{name}\0{title}".encode()).hexdigest()[:10],
        }

    def _evidence(self) -> str:
        """The last lines of the log, the values of the job's secrets covered."""
        try:
            with open(open_file(self._log_path, os.O_RDONLY), "rb") as file:
                begin = max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES)
                file.seek(begin)
                tail = file.read(TAIL_BYTES)
        except OSError:
            return ""
        values = [self._spec["env"].get(name, "") for name in self._told["secrets"]]
        tail = in_other_forms(covered(tail, values), self._told.get("forms", []))
        text = tail.decode("utf-8", "replace").replace("\r", "\n")
        lines = [line for line in text.split("\n")[1 if begin else 0 :] if line.strip()]
        plain = (_plain(line[:MOST_CHARS]) for line in lines[-MOST_LINES:])
        return "\n".join(plain)


def ended(record: Record) -> tuple[str, str]:
    """Name and title of an end, in the daemon's own words for one that it knows nothing else of."""
    if record["signal"] is not None:
        return "killed", f"ended by signal {record['signal']}"
    return "failed_exit", f"ended with exit code {record['code']}"


def covered(tail: bytes, values: list[str]) -> bytes:
    """The bytes with stars where the values, or single lines of them, stand."""
    parts = {part for value in values for part in (value, *value.splitlines())}
    for part in sorted(parts, key=len, reverse=True):
        raw = part.encode("utf-8", "surrogateescape")
        if len(raw) >= LEAST_COVERED:
            tail = tail.replace(raw, b"*" * len(raw))
    return tail


def in_other_forms(tail: bytes, forms: list[Record]) -> bytes:
    """The bytes with stars where a value stands escaped or encoded, as the daemon wrote forms."""
    for form in reversed(forms):  # the longest first: a shorter one may be a part of it
        places = ["(?:" + "|".join(map(re.escape, place)) + ")" for place in form["places"]]
        first, *others = places
        # Each gap is taken whole or not at all: one given back piece by piece takes for ever.
        gaps = (
            f"(?:(?=(?P<gap{number}>{form['between'][:-1]}+))(?P=gap{number}))?{place}"
            for number, place in enumerate(others)
        )
        pattern = re.compile((first + "".join(gaps)).encode("latin-1"))
        tail = pattern.sub(lambda found: re.sub(rb"[^\r\n]", b"*", found[0]), tail)
    return tail


def signed(ident: str, at: int, body: bytes, keys: list[str]) -> str:
    """Standard Webhooks' signatures, one by each of the keys (base64)."""
    content = f"{ident}.{at}.".encode() + body
    found = (hmac.new(base64.b64decode(key), content, hashlib.sha256).digest() for key in keys)
    return " ".join("v1," + base64.b64encode(digest).decode() for digest in found)


def _body(sink: Record, ident: str, alert: Record) -> bytes:
    labels = alert["labels"]
    body: Record = {
        "version": "4",
        "groupKey": f'{{}}:{{end="{ident}"}}',
        "truncatedAlerts": 0,
        "status": "firing",
        "receiver": sink["name"],
        "groupLabels": {key: labels[key] for key in ("alertname", "job", "run")},
        "commonLabels": labels,
        "commonAnnotations": alert["annotations"],
        "externalURL": "",
        "alerts": [alert],
        "wrapper_alert": True,
    }
    if sink["format"] == "cloudevents":
        body = {
            "specversion": "1.0",
            "id": ident,
            "source": f"/orch/{labels['host']}",
            "type": "orch.incident.firing",
            "subject": ident,
            "time": alert["startsAt"],
            "datacontenttype": "application/json",
            "data": body,
        }
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _post(sink: Record, ident: str, body: bytes) -> tuple[bool, str]:
    """Whether the receiver is done with, and its answer; no redirect and no proxy is followed."""
    # Half a second and 6 MiB, for a relay whose daemon is there in vain.
    from http.client import HTTPConnection, HTTPException, HTTPSConnection

    at = int(time.time())
    url = urlsplit(sink["url"])
    kind = "cloudevents+json" if sink["format"] == "cloudevents" else "json"
    headers = {
        "Content-Type": f"application/{kind}",
        "User-Agent": "orch",
        "webhook-id": ident,
        "webhook-timestamp": str(at),
        "webhook-signature": signed(ident, at, body, sink["keys"]),
    }
    if url.username is not None:
        words = f"{unquote(url.username)}:{unquote(url.password or '')}"
        headers["Authorization"] = "Basic " + base64.b64encode(words.encode()).decode()
    connect = HTTPSConnection if url.scheme == "https" else HTTPConnection
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    try:
        connection = connect(url.hostname or "", url.port, timeout=DEADLINE_S)
        try:
            connection.request("POST", path, body, headers)
            status = connection.getresponse().status
        finally:
            connection.close()
    except (OSError, HTTPException, ValueError) as exc:
        # The text of an error may hold the address.
        return False, f"no answer ({type(exc).__name__})"
    return status == 410 or 200 <= status < 300, str(status)


def _let_go_of_everything() -> None:
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    os.chdir("/")
    for name in os.listdir("/proc/self/fd"):
        try:
            os.close(int(name))
        except OSError:
            # The one through which they were listed.
            pass
    for _ in range(3):
        os.open(os.devnull, os.O_RDWR)


def _plain(text: str) -> str:
    return "".join(char if char.isprintable() or char == "\t" else "?" for char in text)


def _utc(at: float) -> str:
    moment = datetime.fromtimestamp(at, tz=timezone.utc)  # noqa: UP017  Python 3.10 has no UTC
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
