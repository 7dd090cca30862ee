"""A time as a person says it: `10m` or `10m ago`, `14:30` (the last one), a date with a time."""

import math
from datetime import datetime, timedelta

from orchestrator.core.inventory.units import parse_duration


def parse_moment(text: str, now: float) -> float | None:
    """Unix seconds, by the local clock; None where the text is no time."""
    text = text.strip()
    if (ago := parse_duration(text.removesuffix("ago").rstrip())) is not None:
        return now - ago
    try:
        at = float(text)
    except ValueError:
        pass
    else:
        return at if math.isfinite(at) else None
    try:
        if "-" in text:
            return datetime.fromisoformat(text).astimezone().timestamp()
        clock = datetime.strptime(text, "%H:%M:%S" if text.count(":") == 2 else "%H:%M")  # noqa: DTZ007  made local below
    except ValueError:
        return None
    today = datetime.fromtimestamp(now).astimezone()
    last = today.replace(hour=clock.hour, minute=clock.minute, second=clock.second, microsecond=0)
    return (last if last.timestamp() <= now else last - timedelta(days=1)).timestamp()
