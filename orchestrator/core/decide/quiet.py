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
    incidents: Iterable[Incident], every_s: float | None, now: float, *, quiet: bool
) -> Iterator[tuple[Incident, int]]:
    """Incidents that are to be told again, each with the seconds after which that was due.

    While it is `quiet` only critical ones: of the others one is due at its end, and not all.
    """
    if every_s is None or every_s <= 0:
        return
    told = {Severity.CRITICAL} if quiet else {Severity.CRITICAL, Severity.WARNING}
    for one in incidents:
        due_s = int((now - one.opened_at) // every_s * every_s)
        if one.state is IncidentState.OPEN and one.severity in told and due_s > 0:
            yield one, due_s
