"""Quiet hours, reminders, and one alert for a failure of many ranks."""

from dataclasses import replace

import pytest

from orchestrator.core.decide.inputs import AckAsked, ReminderDue
from orchestrator.core.decide.quiet import quiet_for_s, reminders
from orchestrator.core.model import AlertsSpec, Severity
from tests.core.decide.stories import SINKS, Story, policy, seen

NIGHT = (22 * 60, 7 * 60)
HOUR_S = 3600.0


@pytest.mark.parametrize(
    ("hours", "hour", "left"),
    [
        (None, 3, None),
        (NIGHT, 21.99, None),
        (NIGHT, 22, 9.0),
        (NIGHT, 3, 4.0),
        (NIGHT, 7, None),
        (NIGHT, 12, None),
        ((9 * 60, 17 * 60), 9, 8.0),
        ((9 * 60, 17 * 60), 17, None),
    ],
)
def test_quiet_lasts_to_its_end(
    hours: tuple[int, int] | None, hour: float, left: float | None
) -> None:
    """By the time of day it is quiet for so many hours more, over midnight too."""
    found = quiet_for_s(hours, hour * HOUR_S)
    assert found == (None if left is None else pytest.approx(left * HOUR_S))


def test_warning_waits_for_the_end_of_quiet_hours_and_a_critical_one_does_not() -> None:
    """What is kept back says until when; who is critical is heard at night."""
    rules = replace(policy(), quiet_until=5000.0)
    for severity, until in ((Severity.WARNING, 5000.0), (Severity.CRITICAL, None)):
        story = Story(rules).running().tell(seen(severity=severity))
        assert [one.not_before for one in story.last.outgoing] == [until]


def test_reminders_count_from_the_opening() -> None:
    """After each span an open incident is due once more; an acknowledged one never again."""
    story = Story().running().tell(seen())
    (incident,) = story.incidents
    at = incident.opened_at
    assert list(reminders([incident], None, at + 9999, quiet=False)) == []
    assert list(reminders([incident], 60.0, at + 59, quiet=False)) == []
    assert list(reminders([incident], 60.0, at + 125, quiet=False)) == [(incident, 120)]
    story.tell(AckAsked(incident=incident.id))
    assert list(reminders(story.incidents, 60.0, at + 125, quiet=False)) == []
    unimportant = replace(incident, severity=Severity.INFO)
    assert list(reminders([unimportant], 60.0, at + 125, quiet=False)) == []


def test_reminders_go_on_where_the_span_is_edited() -> None:
    """A longer one comes after the shorter ones: no reminder has the name of one that was sent."""
    story = Story().running().tell(seen())
    (incident,) = story.incidents
    before = list(reminders([incident], 600.0, incident.opened_at + 36_000, quiet=False))
    later = list(reminders([incident], 14_400.0, incident.opened_at + 43_300, quiet=False))
    assert (before, later) == ([(incident, 36_000)], [(incident, 43_200)])


def test_quiet_hours_end_with_one_reminder() -> None:
    """What is not critical is not reminded of all night long, to arrive at once in the morning."""
    story = Story().running().tell(seen(severity=Severity.WARNING))
    (incident,) = story.incidents
    urgent, at = replace(incident, severity=Severity.CRITICAL), incident.opened_at + 9 * HOUR_S
    assert list(reminders([incident, urgent], HOUR_S, at, quiet=True)) == [(urgent, 32_400)]
    assert list(reminders([incident], HOUR_S, at, quiet=False)) == [(incident, 32_400)]


def test_reminder_is_a_message_of_its_own_until_somebody_cares() -> None:
    """Each reminder has its own id; after an acknowledgement there is none."""
    story = Story().running().tell(seen())
    (incident,) = story.incidents
    ids = set()
    for due_s in (60, 120):
        story.tell(ReminderDue(incident=incident.id, due_s=due_s))
        (out,) = story.last.outgoing
        assert "Still open" in out.alert.annotations["description"]
        ids.add(out.alert.id)
    assert len(ids) == 2
    story.tell(AckAsked(incident=incident.id), ReminderDue(incident=incident.id, due_s=180))
    assert story.last.outgoing == ()


def test_only_what_opens_is_cooled_down() -> None:
    """The cool-down holds for an incident's first alert, not for what is new in it later."""
    rules = policy(alerts=AlertsSpec(sinks=SINKS, cool_down_s=600.0))
    story = Story(rules).running().tell(seen())
    assert [one.cool_down_s for one in story.last.outgoing] == [600.0]
    story.tell(ReminderDue(incident=story.incidents[0].id, due_s=60))
    assert [one.cool_down_s for one in story.last.outgoing] == [0.0]


def test_failure_of_64_ranks_is_one_alert() -> None:
    """The same on 63 ranks and another face on the last: one incident, one message."""
    story = Story().running()
    for rank in range(63):
        story.tell(seen("nccl_error", family=None, rank=rank, ends="rank"), later_s=0.2)
    story.tell(seen("nccl_timeout", family=None, rank=63, ends="rank"), later_s=0.2)
    assert story.sent == [("firing", "nccl_error")]
    assert [one.occurrences for one in story.incidents] == [64]
