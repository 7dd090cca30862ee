"""The exit record that a relay, or `attempt.sh`, leaves when an attempt ends."""

import math
from collections.abc import Mapping
from typing import Any

from orchestrator.core.model import ExitRecord

_MOST = 2**63


def exit_record(record: Mapping[str, Any]) -> ExitRecord:
    """The record of an `exit` frame; ValueError where a number is missing or is none.

    The file lies in the run's own folder: whatever ran there may have written it.
    """
    try:
        return ExitRecord(
            code=_whole(record.get("code")),
            signal=_whole(record.get("signal")),
            started_at=_time(record["started_at"]),
            ended_at=_time(record["ended_at"]),
            boot_id=str(record.get("boot_id", "")),
            log_bytes=_whole(record.get("log_bytes")) or 0,
            raw=_whole(record.get("raw")),
            oom_kills=_whole(record.get("oom_kills")),
            memory_limit_bytes=_whole(record.get("memory_limit_bytes")),
            awaited=bool(record.get("awaited")),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as exc:
        raise ValueError(f"no exit record: {exc!r}") from exc


def _whole(value: Any) -> int | None:
    number = None if value is None else int(value)
    if number is not None and abs(number) >= _MOST:
        raise ValueError("a number that is none of a system")
    return number


def _time(value: Any) -> float:
    moment = float(value)
    if not math.isfinite(moment):
        raise ValueError("a time that is none")
    return moment
