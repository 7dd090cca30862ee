"""Exit records of the relay and of the shell fallback."""

from typing import Any

import pytest

from orchestrator.core.model import ExitRecord
from orchestrator.core.parse.exit_record import exit_record


def test_a_relays_record_is_read() -> None:
    """Keys that are not known here do not matter."""
    record = {
        "code": None,
        "signal": 9,
        "started_at": 1.5,
        "ended_at": 2.5,
        "boot_id": "b",
        "log_bytes": 12,
        "dropped_bytes": 3,
    }
    assert exit_record(record) == ExitRecord(
        code=None, signal=9, started_at=1.5, ended_at=2.5, boot_id="b", log_bytes=12
    )


def test_the_shells_record_keeps_what_it_cannot_tell() -> None:
    """Above 128 neither code nor signal is known, only what `$?` was."""
    record = exit_record({"code": None, "signal": None, "raw": 137, "started_at": 1, "ended_at": 2})
    assert (record.code, record.signal, record.raw) == (None, None, 137)
    assert (record.boot_id, record.log_bytes) == ("", 0)


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"code": 0},
        {"code": 0, "started_at": None, "ended_at": 1},
        {"code": "x", "started_at": 1, "ended_at": 1},
        {"code": 10**30, "started_at": 1, "ended_at": 1},
        {"code": float("inf"), "started_at": 1, "ended_at": 1},
        {"code": 0, "started_at": 10**400, "ended_at": 1},
        {"code": 0, "started_at": 1, "ended_at": float("nan")},
        {"code": 0, "started_at": 1, "ended_at": 1, "oom_kills": []},
    ],
)
def test_what_is_no_record_is_refused(record: dict[str, Any]) -> None:
    """A torn or foreign record is never taken for an end."""
    with pytest.raises(ValueError, match="no exit record"):
        exit_record(record)
