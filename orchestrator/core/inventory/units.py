"""Durations, sizes and hours as people write them; no other spelling of any is read."""

import re

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_HOURS = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([KMGT])(i?))?B")
_POWER = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


def parse_duration(text: str) -> float | None:
    """Seconds of `30s`, `15m`, `6h`, `1h30m`; None where it is no duration."""
    stripped = text.strip()
    parts = _DURATION.findall(stripped)
    if not parts or "".join(number + unit for number, unit in parts) != stripped:
        return None
    return float(sum(float(number) * _SECONDS[unit] for number, unit in parts))


def parse_size(text: str) -> int | None:
    """Bytes of `500MB` (powers of 1000) or `50GiB` (powers of 1024); None where it is no size."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        return None
    number, prefix, binary = match.groups()
    unit: int = (1024 if binary else 1000) ** _POWER[prefix or ""]
    return round(float(number) * unit)


def parse_hours(text: str) -> tuple[int, int] | None:
    """Begin and end of `22:00-07:00` in minutes of the day; None where it is none."""
    match = _HOURS.fullmatch(text.strip())
    if match is None:
        return None
    begin, end = (60 * int(match[hour]) + int(match[hour + 1]) for hour in (1, 3))
    return None if begin == end else (begin, end)
