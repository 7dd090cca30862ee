"""Bodies of the wrong types, to every route that takes one: refused in words, never a traceback."""

import http.client
import json
import socket
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.errors import UsageError
from orchestrator.daemon.asked import checked
from tests.acceptance.conftest import MakeOrch, local_job

ROUTES = {
    "/v1/deploy": ("jobs", "dry_run"),
    "/v1/run": ("job", "env", "args", "why", "release"),
    "/v1/repeat": ("job", "count", "env", "args"),
    "/v1/bisect": ("job", "good", "bad", "count", "env"),
    "/v1/adopt": ("target", "what"),
    "/v1/simulate": ("signature", "target"),
    "/v1/prune": ("run_age_s", "dry_run"),
    "/v1/rollback": ("job", "release"),
    "/v1/alert-test": ("sink",),
    "/v1/silences": ("match", "for_s", "why"),
    "/v1/silences/x/expire": (),
    "/v1/incidents/x/ack": (),
    "/v1/runs/x/stop": ("grace_s",),
    "/v1/hosts/here/give-up": ("to",),
    "/v1/targets/local/end-process": ("pid", "start", "command", "grace_s"),
}
WRONG: tuple[Any, ...] = (
    7,
    -1.5,
    10**400,
    True,
    "word\x1b[2J",
    ["a", 7],
    {"a": {"b": []}},
    None,
    "",
)
NO_OBJECTS = {
    **dict.fromkeys((b"[" * 100_000, b"{", b"\xff"), b"the body is not JSON"),
    **dict.fromkeys((b"[]", b"7", b'"run"', b"null"), b"the body is not a JSON object"),
}
"""A body of no use, and what is said of it."""


class _Unix(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("orch", timeout=20)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(20)
        self.sock.connect(self._path)


def ask(path: str, route: str, body: bytes) -> bytes:
    """What the daemon answers."""
    connection = _Unix(path)
    connection.request("POST", route, body=body)
    answer = connection.getresponse().read()
    connection.close()
    return answer


def test_wrong_types_are_refused_in_words(make_orch: MakeOrch, short_folder: Path) -> None:
    """Each key of each route with each kind of value; the daemon lives on, and nothing is run."""
    orch = make_orch(local_job(short_folder, "python3 -m played steps --count 1"))
    orch("daemon", "start")
    place = orch.json("daemon", "status")
    for route, keys in ROUTES.items():
        for wrong in WRONG:
            # No job at all means the only one, and that would run.
            bodies = [{key: wrong} for key in keys if key != "job" or wrong]
            for body in bodies or [{"x": wrong}]:
                whole = {"job": "nobody", "jobs": ["nobody"], **body}
                said = ask(place["socket"], route, json.dumps(whole).encode())
                assert b"the daemon failed" not in said, (route, body, said)
        for raw, why in NO_OBJECTS.items():
            said = ask(place["socket"], route, raw)
            assert why in said, (route, raw[:20], said)
    assert orch.json("daemon", "status")["pid"] == place["pid"]
    assert orch.json("ps", "-a")["runs"] == []
    assert "failed" not in orch.log()


@pytest.mark.parametrize("number", [10**400, -(10**400), float("inf"), float("nan"), 2**63, True])
def test_a_number_is_one_that_can_be_counted_with(number: float) -> None:
    """Beyond all bounds it is refused as what is none, also inside an object."""
    for what, body in (
        ("stop", {"grace_s": number}),
        ("silence-add", {"for_s": number}),
        ("silence-add", {"match": {"job": number}}),
        ("end-process", {"pid": number}),
    ):
        with pytest.raises(UsageError):
            checked(what, body)


def test_a_reason_is_a_sentence_and_no_file() -> None:
    """What a person gives by -m stands in lists and alerts: beyond a limit it is refused."""
    for what in ("run", "adopt", "silence-add", "repeat"):
        assert checked(what, {"why": "x" * 1000})
        with pytest.raises(UsageError, match="1000 characters") as refused:
            checked(what, {"why": "x" * 1001})
        assert refused.value.remedy == "Say it in fewer words."
