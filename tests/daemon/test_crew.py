"""Which runs a crew takes up and lets go, and what of them it knows afterwards."""

import asyncio
import gc
import weakref
from dataclasses import replace

from orchestrator.core.decide.inputs import AckAsked, StopAsked
from orchestrator.core.errors import NotDriven, TargetError
from orchestrator.core.events import SessionChanged
from orchestrator.core.model import RESTART, Run, RunState
from orchestrator.daemon.crew import Crew
from orchestrator.inbox import Inbox
from orchestrator.store import Store
from tests.daemon.crews import (
    EDITED,
    NEVER,
    WITHIN_S,
    Source,
    is_over,
    state,
    stored,
    until,
    waiting,
)
from tests.store.nouns import draft


async def test_a_run_that_is_being_stored_is_not_forsaken(crew: Crew, store: Store) -> None:
    """A look for runs without a supervisor, which may come at any moment, leaves it alone."""
    asked = replace(draft(), state=RunState.PENDING)
    with crew.beginning(asked.uid):
        run = await store.runs.create(asked)
        await crew.take_up()
        assert (await store.runs.get(run.id)).state is RunState.PENDING
    await crew.take_up()
    assert (await store.runs.get(run.id)).state is not RunState.PENDING


async def test_a_host_that_was_away_is_known_anew(crew: Crew, store: Store) -> None:
    """What another daemon decided meanwhile counts, although the host is ours again by now."""
    run = await stored(store, waiting())
    await crew.take_up()
    assert (await crew.display.view(run.id))["state"] == "backoff"
    await store.runs.put(replace(run, state=RunState.FINISHED))
    assert (await crew.display.view(run.id))["state"] == "backoff"
    await crew.let_go({run.host})
    assert (await crew.display.view(run.id))["state"] == "finished"
    await crew.take_up()
    assert (await crew.display.view(run.id))["state"] == "finished"


async def test_a_host_that_goes_meanwhile_keeps_no_other_run_from_being_taken_up(
    crew: Crew, store: Store, elsewhere: dict[str, type[TargetError]]
) -> None:
    """Whoever looks for runs is not ended by it; the rest of them get their supervisors."""
    gone = await stored(store, replace(waiting(), job="other", target="ct201"))
    here = await stored(store, waiting(EDITED))
    elsewhere["there"] = NotDriven
    await crew.take_up()
    await until(lambda: is_over(store, here))
    assert await state(store, gone) is RunState.BACKOFF


async def test_a_policy_that_was_edited_while_nobody_looked_counts(
    crew: Crew, store: Store
) -> None:
    """Of two runs that wait for their next attempts one was judged by a policy that has gone."""
    same = await stored(store, waiting())
    edited = await stored(store, replace(waiting(EDITED), uid="u2"))
    await crew.take_up()
    await until(lambda: is_over(store, edited))
    assert await state(store, edited) is RunState.FAILED
    assert await state(store, same) is RunState.BACKOFF


async def test_a_run_that_an_older_orch_left_in_a_backoff_is_judged_by_the_policy_of_now(
    crew: Crew, store: Store
) -> None:
    """It kept elsewhere by which policy it had judged: an edit since then would go unnoticed."""
    run = await stored(store, waiting(None))
    await crew.take_up()
    await until(lambda: is_over(store, run))
    assert await state(store, run) is RunState.FAILED
    verdict = (await store.runs.get(run.id)).verdict
    assert verdict is not None
    assert verdict[RESTART]["by"] == NEVER.words


async def test_a_run_that_has_ended_leaves_no_supervisor_behind(crew: Crew, store: Store) -> None:
    """With it would stay what its reader knows, for as long as the daemon lives."""
    run = await stored(store, waiting(EDITED))
    await crew.take_up()
    supervisor = weakref.ref(crew._members[run.id])
    await until(lambda: is_over(store, run))
    await crew.over(run.id, WITHIN_S)
    gc.collect()
    assert supervisor() is None


async def test_no_failure_leaves_a_run_without_a_supervisor(
    crew: Crew, store: Store, source: Source
) -> None:
    """One that fails again while it is replaced is tried again, and hears what was said."""
    run = await stored(store, waiting())
    await crew.take_up()
    source.fails = True
    crew._members[run.id].tell(StopAsked(grace_s=3.0))
    async with asyncio.timeout(WITHIN_S):
        while source.failures < 4:
            await asyncio.sleep(0.05)
    source.fails = False
    await until(lambda: is_over(store, run))
    assert await state(store, run) is RunState.STOPPED


async def test_what_a_person_said_outlives_a_failure() -> None:
    """Whoever goes on in place of a supervisor that failed hears it; what is seen is seen again."""
    inbox = Inbox()
    inbox.tell(AckAsked(incident="i1"))
    inbox.tell(StopAsked(grace_s=3.0))
    await inbox.put(SessionChanged(detached=True, at=1.0))
    inbox.tell(AckAsked(incident="i2"))
    await inbox.get()
    await inbox.get()
    assert inbox.unheard() == (StopAsked(grace_s=3.0), AckAsked(incident="i2"))
    assert inbox.empty()


async def test_a_run_stays_where_it_was_launched_when_its_target_means_another_place(
    crew: Crew, store: Store, source: Source
) -> None:
    """Watched elsewhere it would be taken for lost, and launched there while it lives on here."""
    run = await stored(store, waiting())
    await crew.take_up()
    source.text = source.text.replace(b"ct200: {host: here}", b"ct200: {host: there}")
    crew._fleet.follow(source.inventory())
    await crew.follow_inventory()
    await until(lambda: hears(crew, run))
    assert crew._members[run.id]._stages.link.target.host.name == "here"
    source.text = source.text.replace(b"ct200: {host: there}", b"ct203: {host: there}")
    source.text = source.text.replace(b"target: ct200", b"target: ct203")
    await crew.follow_inventory()
    assert crew._members[run.id]._stages.link.target.host.name == "here"
    assert await crew.stopping.stop(run, 0.1) is not None
    assert await state(store, run) is RunState.STOPPED


async def hears(crew: Crew, run: Run) -> bool:
    """Whether a run's supervisor has a link that is open."""
    return not crew._members[run.id].deaf


async def test_a_link_that_is_closed_under_a_run_is_replaced(crew: Crew, store: Store) -> None:
    """Whoever asks with a target of before an edit closes the new link: nothing more is heard."""
    run = await stored(store, waiting())
    await crew.take_up()
    first = crew._members[run.id]
    crew._fleet.link(replace(first.job.target, labels={"rack": "a"}))
    async with asyncio.timeout(WITHIN_S):
        while crew._members[run.id] is first:
            await asyncio.sleep(0.05)
    assert await hears(crew, run)
    assert await crew.stopping.stop(run, 0.1) is not None
