"""The exit record that a relay, or `attempt.sh`, leaves when an attempt ends."""

from collections.abc import Mapping
from typing import Any

from orchestrator.core.model import ExitRecord


def exit_record(record: Mapping[str, Any]) -> ExitRecord:
    """The record of an `exit` frame; ValueError where a number is missing or is none."""
    try:
        return ExitRecord(
            code=_whole(record.get("code")),
            signal=_whole(record.get("signal")),
            started_at=float(record["started_at"]),
            ended_at=float(record["ended_at"]),
            boot_id=str(record.get("boot_id", "")),
            log_bytes=int(record.get("log_bytes", 0)),
            raw=_whole(record.get("raw")),
            oom_kills=_whole(record.get("oom_kills")),
            memory_limit_bytes=_whole(record.get("memory_limit_bytes")),
            awaited=bool(record.get("awaited")),
        )
    except (KeyError, TypeError) as exc:
        raise ValueError(f"no exit record: {exc!r}") from exc


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)
