"""Which hosts something is left to do on, by what the store keeps of each kind."""

from dataclasses import replace

import pytest

from orchestrator.core.decide.decision import Action, ActionKind, Decision
from orchestrator.core.model import IncidentState, Run, RunState
from orchestrator.store import Store
from tests.store.nouns import draft, incident, outgoing

HOSTS = ("", "pve1", "pve2")


@pytest.fixture
async def ended(store: Store) -> Run:
    """A run that has ended, beside one that lives on another host."""
    if store.leases is not None:
        await store.leases.turn(HOSTS, {}, {})
    await store.runs.create(replace(draft(), host="pve2"))
    run = await store.runs.create(replace(draft("other"), host="pve1"))
    over = replace(run, state=RunState.FAILED, ended_at=2.0)
    await store.apply(Decision(run=over))
    return over


async def test_a_host_of_runs_that_are_done_with_has_nothing_left(store: Store, ended: Run) -> None:
    """The other one's run lives."""
    assert ended.host == "pve1"
    assert await store.unsettled() == {"pve2"}


async def test_an_action_that_is_pending_is_left_to_do(store: Store, ended: Run) -> None:
    """Until it is done."""
    action = Action(kind=ActionKind.COLLECT_EVIDENCE, run=ended.id, attempt=1)
    await store.apply(Decision(run=ended, actions=(action,)))
    assert await store.unsettled() == {"pve1", "pve2"}
    await store.actions.done(action)
    assert await store.unsettled() == {"pve2"}


async def test_an_alert_that_no_sink_has_yet_is_left_to_do(store: Store, ended: Run) -> None:
    """Until it is delivered."""
    await store.apply(Decision(run=ended, outgoing=(outgoing("i1"),)))
    assert await store.unsettled() == {"pve1", "pve2"}
    (waits,) = await store.deliveries.pending()
    await store.deliveries.delivered((waits.id,), 3.0)
    assert await store.unsettled() == {"pve2"}


async def test_an_open_incident_is_left_to_care_for(store: Store, ended: Run) -> None:
    """Until somebody knows of it: it is reminded of."""
    opened = incident(ended.id)
    await store.apply(Decision(run=ended, incidents=(opened,)))
    assert await store.unsettled() == {"pve1", "pve2"}
    known = replace(opened, state=IncidentState.ACKNOWLEDGED)
    await store.apply(Decision(run=ended, incidents=(known,)))
    assert await store.unsettled() == {"pve2"}
