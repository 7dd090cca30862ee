"""A time as a person says it: `10m` (ago), `14:30` (the last one there was), a date with a time."""

from datetime import datetime, timedelta

from orchestrator.core.inventory.units import parse_duration


def parse_moment(text: str, now: float) -> float | None:
    """Unix seconds, by the local clock; None where the text is no time."""
    if (ago := parse_duration(text)) is not None:
        return now - ago
    try:
        return float(text)
    except ValueError:
        pass
    try:
        if "-" in text:
            return datetime.fromisoformat(text).astimezone().timestamp()
        clock = datetime.strptime(text, "%H:%M:%S" if text.count(":") == 2 else "%H:%M")  # noqa: DTZ007  made local below
    except ValueError:
        return None
    today = datetime.fromtimestamp(now).astimezone()
    at = today.replace(hour=clock.hour, minute=clock.minute, second=clock.second, microsecond=0)
    return (at if at.timestamp() <= now else at - timedelta(days=1)).timestamp()
