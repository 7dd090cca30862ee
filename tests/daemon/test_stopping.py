"""What a stop in a back-off ends, where the host is away meanwhile, and what it says was ended."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from orchestrator.clock import SystemClock
from orchestrator.core.decide.decision import STOP_ON, Action, ActionKind, Decision
from orchestrator.core.decide.inputs import StopAsked
from orchestrator.core.errors import AuthRefused, HostKeyRefused, NotDriven, TargetError
from orchestrator.core.model import Run, RunState
from orchestrator.daemon.crew import Crew
from orchestrator.daemon.launching import _stop_others
from orchestrator.daemon.parts import Parts
from orchestrator.daemon.stopping import keep, kept
from orchestrator.link.calls import CallFailed
from orchestrator.patience import is_to_wait
from orchestrator.probe.fence import Fenced
from orchestrator.store import Store
from tests.daemon.crews import WITHIN_S, Source, is_over, state, stored, until, waiting
from tests.store.nouns import draft, incident


async def remains(store: Store, run: Run) -> tuple[str, str | None]:
    """How the ending of what an attempt left stands, and why it was given up."""
    kind = ActionKind.END_REMAINS
    (one,) = [one for one in await store.actions.of(run.id) if one.action.kind is kind]
    return one.state, one.error


@pytest.mark.parametrize("refusal", [NotDriven, HostKeyRefused, AuthRefused])
async def test_what_is_left_of_a_run_that_was_stopped_in_a_backoff_is_ended_later(
    crew: Crew,
    store: Store,
    elsewhere: dict[str, type[TargetError]],
    refusal: type[TargetError],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A host that cannot be reached meanwhile, or is another daemon's, leaves it to whoever can."""
    run = await stored(store, waiting())
    await crew.take_up()
    elsewhere["here"] = refusal
    with caplog.at_level("INFO"):
        crew._members[run.id].tell(StopAsked(grace_s=0.1))
        await until(lambda: has_tried(caplog))
    assert await state(store, run) is RunState.STOPPED
    assert await remains(store, run) == ("pending", None)
    await crew.let_go({run.host})
    assert await remains(store, run) == ("pending", None)
    elsewhere.clear()
    await crew.take_up()
    await crew.over(run.id, WITHIN_S)
    assert await remains(store, run) == ("done", None)


async def has_tried(caplog: pytest.LogCaptureFixture) -> bool:
    """Whether an action could not be done."""
    return bool({"action.waits", "action.failed"} & set(caplog.messages))


async def test_a_run_in_a_backoff_on_a_host_that_is_away_is_replaced_at_once(
    crew: Crew, store: Store, source: Source
) -> None:
    """`--replace` waits for GPUs to be free, and not for a host that may never come back."""
    run = await stored(store, replace(waiting(), job="away", target="ct202"))
    await crew.take_up()
    parts = cast("Parts", SimpleNamespace(crew=crew, store=store, clock=SystemClock()))
    async with asyncio.timeout(WITHIN_S):
        said = [one async for one in _stop_others(parts, source.inventory().jobs["away"])]
    assert [one["kind"] for one in said] == ["stopping", "warning"]
    assert said[-1]["text"].startswith(f"{run.id} is stopped; ct202 cannot be reached")
    assert await state(store, run) is RunState.STOPPED
    assert await remains(store, run) == ("pending", None)


async def test_what_is_left_is_no_reason_to_show_an_incident_as_open(
    crew: Crew, store: Store
) -> None:
    """Whoever acknowledges it while the host is away is believed, although the run is kept here."""
    run = await stored(store, replace(waiting(), job="away", target="ct202"))
    view = await store.view(run.id)
    await store.apply(Decision(run=view.run, incidents=(incident(run.id),)))
    await crew.take_up()
    crew._members[run.id].tell(StopAsked(grace_s=0.1))
    await until(lambda: is_over(store, run))
    await crew.heeding.acknowledge(incident(run.id))
    assert await remains(store, run) == ("pending", None)
    assert [one.state for one in crew._members[run.id].view.incidents] == ["acknowledged"]
    shown = crew.display._board.view("incidents", "i1")
    assert shown is not None
    assert shown["state"] == "acknowledged"


async def test_a_stop_is_done_where_the_host_is_now(
    crew: Crew, store: Store, source: Source
) -> None:
    """A host whose address is edited is a new link: on the old one nothing would ever be done."""
    run = await stored(store, replace(waiting(), job="away", target="ct202"))
    await crew.take_up()
    stop = asyncio.create_task(crew.stopping.stop(run, 0.1))
    await until(lambda: is_over(store, run))
    source.text = source.text.replace(b"{hostname: 127.0.0.1, port: 1}", b"{transport: local}")
    await crew.follow_inventory()
    async with asyncio.timeout(WITHIN_S):
        ending = await stop
    assert ending is not None
    assert ending["ended"] == []
    assert await remains(store, run) == ("done", None)


def test_a_probe_that_a_newer_lease_fenced_off_leaves_the_action_to_its_successor() -> None:
    """Marked as failed by whoever lost the host, it would be done by nobody."""
    action = Action(kind=ActionKind.END_REMAINS, run="dflash-1", attempt=1)
    run = replace(draft(), state=RunState.STOPPED)
    word = Fenced(1, 2).type
    for error_type, waits in ((word, True), ("BadCall", False)):
        failed = CallFailed("no", target="a", op="end", error_type=error_type, remedy=None)
        assert is_to_wait(action, failed, run) is waits


async def test_what_was_ended_before_an_attempt_is_not_what_a_stop_ended(
    crew: Crew, store: Store
) -> None:
    """A stop that finds the run over by itself would tell of an earlier attempt's processes."""
    run = await stored(store, waiting())
    again = Action(kind=ActionKind.RELAUNCH, run=run.id, attempt=2, at=1.0)
    await store.apply(Decision(run=run, actions=(again,)))
    await crew.take_up()
    ending = crew._tasks[run.id]
    await until(lambda: is_over(store, run))
    assert await state(store, run) is RunState.FAILED
    # What was found there refused the launch, so what was left before has been looked for.
    assert (await store.view(run.id)).incidents[-1].signature == "launch_failed"
    assert (await remains(store, run))[0] == "cancelled"
    assert await ending is None


async def test_a_host_that_goes_to_another_daemon_over_a_stop_leaves_the_word(
    crew: Crew, store: Store
) -> None:
    """Whoever asked is told that it is kept, and not to ask once more."""
    run = await stored(store, waiting())
    await crew.take_up()
    left_meanwhile = replace(crew.stopping, tasks={})
    with pytest.raises(NotDriven) as caught:
        await left_meanwhile.stop(run, 0.5)
    assert caught.value.remedy is not None
    assert caught.value.remedy.startswith("The stop is kept")
    assert await kept(store, [run]) == {run.id: StopAsked(grace_s=0.5)}


async def test_a_word_over_a_stop_of_the_policy_is_done_by_the_next_daemon(
    crew: Crew, store: Store
) -> None:
    """It was being stopped for what it printed, and would be launched again: it is not."""
    run = await stored(store, replace(waiting(), state=RunState.RUNNING))
    stop = Action(kind=ActionKind.STOP, run=run.id, attempt=1, grace_s=0.1, reason=STOP_ON)
    stopping = replace(run, state=RunState.STOPPING)
    await store.apply(Decision(run=stopping, actions=(stop,)))
    await keep(store, run, StopAsked(grace_s=0.1))
    await crew.take_up()
    await until(lambda: is_over(store, run))
    assert await state(store, run) is RunState.STOPPED
