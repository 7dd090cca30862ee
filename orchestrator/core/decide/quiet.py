"""Whether it is quiet now, by the time of day, and what is due to be told again.

Must not: read a clock or know of time zones; it is given local seconds since midnight.
"""

from collections.abc import Iterable, Iterator

from orchestrator.core.model import Incident, IncidentState, Severity

DAY_S = 86_400.0


def quiet_for_s(hours: tuple[int, int] | None, second_of_day: float) -> float | None:
    """Seconds until the quiet hours of now end; None where it is not quiet."""
    if hours is None:
        return None
    begin, end = (60.0 * minute for minute in hours)
    left = (end - second_of_day) % DAY_S or DAY_S
    return left if (second_of_day - begin) % DAY_S < (end - begin) % DAY_S else None


def reminders(
    incidents: Iterable[Incident], every_s: float | None, now: float
) -> Iterator[tuple[Incident, int]]:
    """Incidents that are to be told again, each with the number of its newest reminder."""
    if every_s is None or every_s <= 0:
        return
    for one in incidents:
        nth = int((now - one.opened_at) // every_s)
        if one.state is IncidentState.OPEN and one.severity is not Severity.INFO and nth >= 1:
            yield one, nth
