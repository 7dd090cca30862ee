"""Which sinks an alert's labels lead to.

Must not: know what a sink is.
"""

from collections.abc import Mapping

from orchestrator.core.decide.decision import Silence
from orchestrator.core.model import AlertsSpec


def sinks_for(
    labels: Mapping[str, str], spec: AlertsSpec, silences: tuple[Silence, ...], now: float
) -> tuple[str, ...]:
    """The sinks of all routes that match, each once; none where a silence matches.

    Without any route every sink gets everything.
    """
    if is_silenced(labels, spec, silences, now):
        return ()
    if not spec.routes:
        return tuple(sink.name for sink in spec.sinks)
    matching = (route.to for route in spec.routes if matches(route.match, labels))
    return tuple(dict.fromkeys(name for names in matching for name in names))


def is_silenced(
    labels: Mapping[str, str], spec: AlertsSpec, silences: tuple[Silence, ...], now: float
) -> bool:
    """Whether somebody asked not to hear of alerts with these labels."""
    lasting = (one.match for one in silences if one.until is None or now < one.until)
    return any(matches(match, labels) for match in (*spec.silences, *lasting))


def matches(match: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Whether every label of `match` has its value; an empty match takes all."""
    return all(labels.get(name) == value for name, value in match.items())
