"""What an alert says, where it goes, and the statistics of trials."""

import pytest

from orchestrator.core.decide import alerts
from orchestrator.core.decide.decision import Silence
from orchestrator.core.decide.inputs import ReminderDue
from orchestrator.core.decide.routes import sinks_for
from orchestrator.core.decide.trials import crash_rate
from orchestrator.core.model import Alert, AlertsSpec, Route
from tests.core.decide.stories import SINKS, TARGET, Story, crash, finding, policy, seen


def _alert() -> Alert:
    story = Story().running().tell(seen(rank=3, same_as="dflash-1"))
    return story.last.outgoing[0].alert


def test_labels_are_pinned() -> None:
    """An alert's labels are these, and the target's own beside them."""
    assert _alert().labels == {
        "room": "cellar",
        "alertname": "fx_trace_race",
        "severity": "critical",
        "host": "pve1",
        "target": "ct200",
        "job": "dflash",
        "run": "dflash-2",
        "attempt": "1",
        "rank": "3",
    }


def test_annotations_are_pinned() -> None:
    """An alert's annotations are these, each as text."""
    alert = _alert()
    assert alert.annotations == {
        "summary": "dflash-2 on ct200: Thread-3 (compile) died: Title of fx_trace_race "
        "(same as run 1: not a fix)",
        "description": "The cause.",
        "evidence": "40: Error of fx_trace_race",
        "traceback": "Traceback (most recent call last):\n  ...",
        "thread": "Thread-3 (compile)",
        "next_steps": "1. Do this.\n2. Then that.",
        "same_as": "same as run 1: not a fix",
        "command": f"orch explain {alert.incident}",
    }
    assert alert.id == f"{alert.incident}-firing-fx_trace_race-critical"


def test_evidence_has_ten_lines_at_most() -> None:
    """However much there is to show, ten lines of bounded length are shown."""
    story = Story().running()
    lines = tuple(f"{number}: {'x' * 2000}" for number in range(30))
    story.tell(story.exited(1), crash(evidence=lines))
    evidence = story.last.outgoing[0].alert.annotations["evidence"].split("\n")
    assert len(evidence) == 10
    assert max(map(len, evidence)) == alerts.MAX_LINE_CHARS


def test_long_traceback_loses_its_middle() -> None:
    """A traceback above 16 KiB keeps whole lines of both ends, and says how much is missing."""
    text = "\n".join(f'  File "x.py", line {number}, in café' for number in range(2000))
    cut = alerts.cut_middle(text)
    assert len(cut.encode()) <= alerts.MAX_TRACEBACK_BYTES
    head, _, rest = cut.partition("\n[... ")
    missing, _, tail = rest.partition(" bytes cut ...]\n")
    assert text.startswith(head + "\n")
    assert text.endswith("\n" + tail)
    assert len(head.encode()) + len(tail.encode()) + int(missing) == len(text.encode())


def test_one_endless_line_is_cut_too() -> None:
    """A traceback without line ends keeps its limit, and no character is broken."""
    cut = alerts.cut_middle("é" * 90_000)
    assert len(cut.encode()) <= alerts.MAX_TRACEBACK_BYTES
    assert "bytes cut" in cut
    assert alerts.cut_middle("short") == "short"


def test_remote_output_is_made_plain() -> None:
    """Escapes, links and direction marks of remote output reach no receiver."""
    hostile = "a\x1b]8;;http://x\x07b\u202ec\td\ne"
    story = Story().running().tell(seen(text=hostile, traceback=hostile))
    notes = story.last.outgoing[0].alert.annotations
    assert notes["traceback"] == "a?]8;;http://x?b?c\td\ne"
    assert not any("\x1b" in text or "\u202e" in text for text in notes.values())


def test_routes_by_labels() -> None:
    """All routes that match count, each sink once; without routes every sink gets everything."""
    labels = {"severity": "critical", "job": "dflash"}
    routes = (
        Route(match={"severity": "critical"}, to=("ops", "phone")),
        Route(match={"severity": "critical", "job": "other"}, to=("pager",)),
        Route(match={}, to=("ops",)),
    )
    spec = AlertsSpec(sinks=SINKS, routes=routes)
    assert sinks_for(labels, spec, (), 0.0) == ("ops", "phone")
    assert sinks_for({"severity": "info"}, spec, (), 0.0) == ("ops",)
    assert sinks_for(labels, AlertsSpec(sinks=SINKS), (), 0.0) == ("ops", "phone")


def test_silences() -> None:
    """A silence keeps alerts back while it lasts; the incident is there all the same."""
    night = Silence(id="s", match={"job": "dflash"}, until=50.0)
    spec = AlertsSpec(sinks=SINKS)
    assert sinks_for({"job": "dflash"}, spec, (night,), 49.0) == ()
    assert sinks_for({"job": "dflash"}, spec, (night,), 50.0) == ("ops", "phone")
    assert sinks_for({"job": "other"}, spec, (night,), 49.0) == ("ops", "phone")
    written = AlertsSpec(sinks=SINKS, silences=({"room": "cellar"},))
    story = Story(policy(alerts=written)).running().tell(seen())
    assert [one.sinks for one in story.last.outgoing] == [()]
    assert len(story.incidents) == 1


def test_what_a_silence_kept_back_is_not_sent_once_it_ends() -> None:
    """The same failure again alerts nobody; a reminder, and what is new of it, do."""
    story = Story(policy(alerts=AlertsSpec(sinks=SINKS, silences=({"room": "cellar"},))))
    story.running().tell(seen())
    story.rules = policy(alerts=AlertsSpec(sinks=SINKS))
    story.tell(seen())
    assert (story.last.outgoing, story.incidents[0].occurrences) == ((), 2)
    story.tell(ReminderDue(incident=story.incidents[0].id, due_s=60))
    assert [one.sinks for one in story.last.outgoing] == [("ops", "phone")]
    story.tell(crash(signature="segfault"))
    assert [one.sinks for one in story.last.outgoing] == [("ops", "phone")]


def test_target_that_left_the_inventory() -> None:
    """An old run's alert still has labels when its target is gone."""
    job = policy().job
    assert job.target_named("gone") == TARGET
    assert finding().title == "Title of fx_trace_race"


@pytest.mark.parametrize(
    ("crashes", "trials", "low", "high"),
    [(0, 10, 0.0, 0.2775), (3, 10, 0.1078, 0.6032), (10, 10, 0.7225, 1.0), (1, 1, 0.2065, 1.0)],
)
def test_crash_rate_has_wilsons_interval(
    crashes: int, trials: int, low: float, high: float
) -> None:
    """The interval is Wilson's (figures: R's binom package)."""
    rate = crash_rate(crashes, trials)
    assert (rate.low, rate.high) == pytest.approx((low, high), abs=1e-4)


def test_crash_rate_as_text() -> None:
    """The rate is said with its counts and its interval; impossible counts are refused."""
    assert str(crash_rate(3, 10)) == "3 of 10 crashed: 30 % (11-60 %)"
    assert str(crash_rate(0, 0)) == "no trial yet"
    with pytest.raises(ValueError, match="4 crashes of 3 trials"):
        crash_rate(4, 3)
