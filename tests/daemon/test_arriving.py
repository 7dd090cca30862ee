"""Whether a run is where an edited address leads, before anything is done there."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from orchestrator.core.decide.inputs import StopAsked
from orchestrator.core.errors import TargetError, Unreachable
from orchestrator.core.model import Host, Run, RunState, Target
from orchestrator.daemon.arriving import Arrival
from orchestrator.daemon.crew import Crew
from orchestrator.daemon.placed import is_elsewhere, stays, where
from orchestrator.daemon.recruiting import ASKED_AGAIN_AFTER_S
from orchestrator.daemon.stopping import keep
from orchestrator.link.link import Link
from orchestrator.store import Store
from tests.daemon.crews import INVENTORY, HastyClock, Source, is_over, state, until, waiting
from tests.store.nouns import draft

WAS = Target(name="ct200", host=Host(name="a", hostname="10.0.0.1"), runtime="pct", container="200")
NOW = replace(WAS, host=replace(WAS.host, hostname="10.0.0.9"))


class Asked:
    """A link to a target that is away twice, and then says which runs it has."""

    target = NOW

    def __init__(self, *names: str) -> None:
        self._names, self.calls = names, list[dict[str, Any]]()

    async def call(self, _op: str, **said: Any) -> dict[str, Any]:
        """Its answer."""
        self.calls.append(said)
        if len(self.calls) < 3:
            raise Unreachable("away", target="ct200")
        return {"runs": [{"name": one} for one in said["names"] if one in self._names]}


@pytest.fixture
async def run(store: Store) -> Run:
    """A run that was launched at the old address."""
    return await store.runs.create(replace(draft(), whereabouts=WAS))


def arrival(store: Store, link: Asked, run: Run, target: Target, refuted: list[str]) -> Arrival:
    """That of a supervisor."""
    clock, there = HastyClock(), cast(Link, link)

    def told(is_there: bool) -> None:
        refuted.extend([] if is_there else [run.id])

    return Arrival(store, there, clock, run, target, told)


async def test_nothing_is_done_before_the_machine_says_that_it_has_the_run(
    store: Store, run: Run
) -> None:
    """It is asked until it answers; that it has it is kept, under the target's own name."""
    link, refuted = Asked("dflash-1.u1"), list[str]()
    one = arrival(store, link, run, replace(NOW, name="ct200 at somewhere"), refuted)
    waiting_for = asyncio.create_task(one.there())
    await asyncio.sleep(0)
    assert not waiting_for.done()
    await one.seek()
    await waiting_for
    assert link.calls[0]["names"] == ["dflash-1.u1"]
    assert link.calls[0]["workdir"] == "/srv/orch"
    assert (await store.runs.get(run.id)).whereabouts == NOW
    assert refuted == []


async def test_a_machine_that_has_not_the_run_is_left_alone(store: Store, run: Run) -> None:
    """Whoever waits to do something there waits for ever, and its place stays what it was."""
    refuted: list[str] = []
    one = arrival(store, Asked("dflash-2.u1"), run, NOW, refuted)
    with pytest.raises(TargetError, match="dflash-1 is not at ct200"):
        await one.seek()
    assert refuted == [run.id]
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(one.there(), 0.05)
    assert (await store.runs.get(run.id)).whereabouts == WAS


async def test_the_same_address_is_not_asked(store: Store, run: Run) -> None:
    """What else is edited of the way there is kept."""
    link, other = Asked(), replace(WAS, python="/opt/python3")
    one = arrival(store, link, run, other, [])
    await one.there()
    await one.seek()
    assert link.calls == []
    assert (await store.runs.get(run.id)).whereabouts == other


@pytest.mark.parametrize("seen", [True, False])
async def test_a_run_of_an_older_orch_waits_for_nothing(store: Store, run: Run, seen: bool) -> None:
    """It has a place once it is seen; where it is not seen it is as it always was."""
    await store.runs.update(run.id, whereabouts=None)
    older = await store.runs.get(run.id)
    one = arrival(store, Asked(*(["dflash-1.u1"] if seen else [])), older, NOW, [])
    await one.there()
    await one.seek()
    assert (await store.runs.get(run.id)).whereabouts == (NOW if seen else None)


def test_a_port_or_a_jump_host_may_lead_to_another_machine() -> None:
    """Who logs in there, and with which key, does not."""
    for edit in ({"port": 2222}, {"proxy_jump": "b"}, {"transport": "local"}, {"hostname": "x"}):
        assert is_elsewhere(WAS, replace(WAS, host=replace(WAS.host, **cast("Any", edit))))
    for edit in ({"user": "u"}, {"identity_file": "/k"}, {"become": "sudo"}):
        assert not is_elsewhere(WAS, replace(WAS, host=replace(WAS.host, **cast("Any", edit))))
    assert stays(WAS, "ct200").name == "ct200 at 10.0.0.1/pct/200/root"
    assert stays(WAS, "ct200").host == WAS.host


async def test_a_run_is_looked_for_at_its_old_address_once_the_new_one_has_it_not(
    crew: Crew, store: Store, source: Source
) -> None:
    """By a daemon that begins after the edit; an edit of the address is tried once more."""
    old = source.inventory().targets["ct202"]
    run = await store.runs.create(replace(waiting(), whereabouts=old, job="away", target="ct202"))
    await store.runs.put(replace(run, state=RunState.BACKOFF))
    source.text = INVENTORY.replace(b"{hostname: 127.0.0.1, port: 1}", b"{transport: local}")
    await crew.take_up()
    assert crew._members[run.id].job.target == source.inventory().targets["ct202"]
    await until(lambda: is_at(crew, run, stays(old, "ct202")))
    await crew.follow_inventory()
    assert crew._members[run.id].job.target == stays(old, "ct202")
    assert where(run, source.inventory()) == source.inventory().targets["ct202"]
    source.text = INVENTORY
    await crew.follow_inventory()
    await until(lambda: is_at(crew, run, old))
    assert await state(store, run) is RunState.BACKOFF
    assert not await is_over(store, run)


async def test_a_run_that_comes_back_at_the_edited_address_is_followed_there(
    crew: Crew, store: Store, source: Source, tmp_path: Path
) -> None:
    """A machine may get its folders later than its address; till then it stays where it was."""
    old = source.inventory().targets["ct202"]
    folder = f"{tmp_path}/runs/{{id}}.u1"
    away = replace(waiting(), whereabouts=old, job="away", target="ct202", directory=folder)
    run = await store.runs.create(away)
    await store.runs.put(replace(run, state=RunState.BACKOFF))
    source.text = INVENTORY.replace(b"{hostname: 127.0.0.1, port: 1}", b"{transport: local}")
    edited = source.inventory().targets["ct202"]
    await crew.take_up()
    await until(lambda: is_at(crew, run, stays(old, "ct202")))
    member = crew._members[run.id]
    attempt = Path(run.directory) / "attempt-1"
    await crew.look_again()
    cast(HastyClock, crew._clock).ahead_s = ASKED_AGAIN_AFTER_S
    await until(lambda: is_asked_again(crew, run))
    assert crew._members[run.id] is member, "it is not there, and was left alone"
    attempt.mkdir(parents=True)
    record = {"pid": 1, "start": 1, "relay_pid": 1, "relay_start": 1, "started_at": 1.0}
    (attempt / "attempt.json").write_text(json.dumps({**record, "boot_id": "b", "session": "s"}))
    await crew.look_again()
    assert crew._members[run.id] is member, "it was asked a moment ago"
    cast(HastyClock, crew._clock).ahead_s *= 2
    await crew.look_again()
    await until(lambda: is_at(crew, run, edited))
    await until(lambda: is_known_at(store, run, edited))


async def is_asked_again(crew: Crew, run: Run) -> bool:
    """Whether the machine at the edited address has answered once more."""
    _, before = crew._recruiting._refuted[run.id]
    await crew.look_again()
    return crew._recruiting._refuted[run.id][1] > before


async def is_known_at(store: Store, run: Run, target: Target) -> bool:
    """Whether a run's place is stored as that."""
    return (await store.runs.get(run.id)).whereabouts == target


async def is_at(crew: Crew, run: Run, target: Target) -> bool:
    """Whether a run is watched there."""
    return crew._members[run.id].job.target == target


async def test_a_stop_that_no_daemon_decided_on_is_decided_on(crew: Crew, store: Store) -> None:
    """It was stored by one that died of it, and is no word about a run of the same name."""
    run = await store.runs.create(waiting())
    await store.runs.put(replace(run, state=RunState.BACKOFF))
    other = await store.runs.create(replace(waiting(), uid="u2"))
    await store.runs.put(replace(other, state=RunState.BACKOFF))
    await keep(store, run, StopAsked(grace_s=0.1))
    await keep(store, replace(other, uid="u3"), StopAsked(grace_s=0.1))
    await crew.take_up()
    await until(lambda: is_over(store, run))
    assert await state(store, run) is RunState.STOPPED
    assert await state(store, other) is RunState.BACKOFF
