"""What is forgotten, and what must not be."""

import asyncio
from dataclasses import replace

from sqlalchemy import insert

from orchestrator.core.decide.decision import Action, ActionKind, Decision
from orchestrator.core.model import IncidentState, RunState
from orchestrator.store import Store, tables
from orchestrator.store.retention import SOME, Kept
from tests.store.nouns import draft, incident, outgoing


async def _ended(store: Store, at: float, size: int) -> str:
    run = await store.runs.create(draft())
    store.logs.append(run.id, 1, 0, bytes(range(256)) * (size // 256), at)
    store.metrics.append(run.id, 0, 0, b"{}\n", at)
    await store.apply(Decision(run=replace(run, state=RunState.FAILED, ended_at=at)))
    return run.id


async def test_oldest_logs_go_first(store: Store) -> None:
    """Above the limit the oldest ended runs lose their logs; runs themselves stay."""
    now = 2_000_000_000.0
    ids = [await _ended(store, now + number, 10_240) for number in range(4)]
    pruned = await store.prune(Kept(log_bytes=25_000))
    assert pruned.logs == tuple(ids[:2])
    assert pruned.log_bytes >= 20_480
    assert store.logs.runs() == store.metrics.runs() == tuple(ids[2:])
    assert len(await store.runs.list()) == 4


async def test_old_logs_go(store: Store) -> None:
    """A log older than its time goes, however small it is; a live run's never does."""
    live = await store.runs.create(draft())
    store.logs.append(live.id, 1, 0, b"x" * 10_000, 1.0)
    old = await _ended(store, 1.0, 256)
    fresh = await _ended(store, 4_000_000_000.0, 256)
    pruned = await store.prune(Kept(log_bytes=10**6))
    assert pruned.logs == (old,)
    assert store.logs.runs() == tuple(sorted((live.id, fresh)))
    nothing = await store.prune(Kept(log_bytes=0, log_age_s=0))
    assert nothing.logs == (fresh,)
    assert store.logs.runs() == (live.id,)


async def test_settled_rows_go_and_open_ones_stay(store: Store) -> None:
    """Delivered alerts of resolved incidents go; what is pending or open stays."""
    run = await store.runs.create(draft())
    resolved = replace(incident(run.id, ident="i1"), state=IncidentState.RESOLVED)
    opened = incident(run.id, ident="i2", fingerprint="v1:bb")
    launch = Action(kind=ActionKind.LAUNCH, run=run.id, attempt=1)
    await store.apply(
        Decision(
            run=run,
            incidents=(resolved, opened),
            outgoing=(outgoing("i1"), outgoing("i1", "again"), outgoing("i2")),
            actions=(launch,),
        )
    )
    await store.deliveries.delivered(("i1-firing/ops", "i2-firing/ops"), 5.0)
    pruned = await store.prune(Kept(row_age_s=-60.0))
    assert pruned.rows == 1
    assert [one.id for one in await store.deliveries.of_incident("i1")] == ["i1-again/ops"]
    assert len(await store.deliveries.of_incident("i2")) == 1
    assert await store.actions.pending() == (launch,)
    assert len(await store.incidents.list()) == 2


async def test_what_was_done_for_a_run_goes_once_it_has_ended(store: Store) -> None:
    """While it lives a stop that was done says why its attempt ended; what is to be done stays."""
    run = await store.runs.create(draft())
    stop, look = (
        Action(kind=kind, run=run.id, attempt=1, reason="human")
        for kind in (ActionKind.STOP, ActionKind.COLLECT_EVIDENCE)
    )
    await store.apply(Decision(run=run, actions=(stop, look)))
    await store.actions.done(stop)
    assert (await store.prune(Kept(row_age_s=-60.0))).rows == 0
    assert (await store.view(run.id)).stop_reason == "human"
    await store.apply(Decision(run=replace(run, state=RunState.STOPPED, ended_at=5.0)))
    assert (await store.prune(Kept(row_age_s=-60.0))).rows == 1
    assert await store.actions.pending() == (look,)


async def test_what_waits_for_a_removed_sink_goes_at_its_age(store: Store) -> None:
    """An alert that waits for a sink of the inventory stays for ever, for another one it goes."""
    run = await store.runs.create(draft())
    opened = incident(run.id, ident="i1")
    sent = outgoing("i1", sinks=("ops", "pager"))
    await store.apply(Decision(run=run, incidents=(opened,), outgoing=(sent,)))
    await store.prune(Kept(row_age_s=60.0, sinks=frozenset({"ops"})))
    assert len(await store.deliveries.pending()) == 2
    await store.prune(Kept(row_age_s=-60.0))
    assert len(await store.deliveries.pending()) == 2
    await store.prune(Kept(row_age_s=-60.0, sinks=frozenset({"ops"})))
    assert [one.sink for one in await store.deliveries.pending()] == ["ops"]


async def test_much_that_goes_keeps_nobody_waiting(store: Store) -> None:
    """It goes in parts, each committed: all in one, a PostgreSQL would never come to its end."""
    count = 3 * SOME + 1
    line = {"at": 1.0, "run": "dflash-1", "kind": "run.phase", "body": {}}
    await store._worker.call(lambda c: c.execute(insert(tables.journal), [line] * count))
    pruning = asyncio.ensure_future(store.prune(Kept()))
    seen = []
    while not pruning.done():
        seen.append(len(await store.journal.of("dflash-1", limit=count)))
    assert (await pruning).rows == count
    assert [left for left in seen if 0 < left < count]
    assert await store.journal.of("dflash-1", limit=1) == ()
