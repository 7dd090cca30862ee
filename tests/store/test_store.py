"""Runs, incidents, actions and deliveries in a real SQLite file."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.clock import SystemClock
from orchestrator.core.decide.decision import Action, ActionKind, Decision, Note
from orchestrator.core.errors import NoSuchRun, StoreError
from orchestrator.core.model import Attempt, IncidentState, Release, RunState
from orchestrator.store import Store
from orchestrator.store.retention import Kept
from tests.store.nouns import draft, incident, outgoing


async def test_run_comes_back_as_it_was_stored(store: Store) -> None:
    """A created run has its number, id and folder, and every field survives the way back."""
    run = await store.runs.create(draft())
    assert (run.id, run.number, run.directory) == ("dflash-1", 1, "/srv/orch/runs/dflash-1.u1")
    assert await store.runs.get("dflash-1") == run
    assert run.created_at > 0


async def test_what_is_measured_of_a_run_that_is_not_there_is_let_go(store: Store) -> None:
    """Whoever reads a run goes on with it, and makes none of its numbers."""
    await store.runs.update("dflash-1", step=7)
    assert await store.runs.list() == ()


async def test_numbers_count_for_each_job(store: Store) -> None:
    """Each job counts from 1, also while several runs are created at once."""
    runs = await asyncio.gather(*(store.runs.create(draft()) for _ in range(5)))
    assert sorted(run.number for run in runs) == [1, 2, 3, 4, 5]
    assert (await store.runs.create(draft("other"))).id == "other-1"


async def test_words_of_run(store: Store) -> None:
    """A RUN is an id, a job's newest, `@N` or `-N` newest, a unique prefix, or a number."""
    for job in ("dflash", "dflash", "eagle", "simulation"):
        await store.runs.create(draft(job))
    expected = {
        "dflash-1": "dflash-1",
        "dflash": "dflash-2",
        "simulation": "simulation-1",
        "@1": "eagle-1",
        "-1": "eagle-1",
        "@3": "dflash-1",
        "-2": "dflash-2",
        "ea": "eagle-1",
        "2": "dflash-2",
    }
    found = {words: (await store.runs.find(words)).id for words in expected}
    assert found == expected


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("@9", "There is no run @9: there are 2."),
        ("@0", "There is no run @0"),
        ("dfl", "beginning of several runs: dflash-2, dflash-1"),
        ("7", "There is no run 7."),
        ("nope", "There is no run nope."),
        ("%", "There is no run %."),
        ("", "There is no run ."),
    ],
)
async def test_words_that_name_no_run(store: Store, words: str, said: str) -> None:
    """Words that name none or several are refused by a sentence."""
    await store.runs.create(draft())
    await store.runs.create(draft())
    with pytest.raises(NoSuchRun, match=said.replace(".", r"\.")) as refusal:
        await store.runs.find(words)
    assert refusal.value.exit_code == 102


async def test_incident_by_id_prefix_and_run(store: Store) -> None:
    """An INCIDENT is an id, a prefix of one, or a RUN's newest."""
    run = await store.runs.create(draft())
    with pytest.raises(NoSuchRun, match="has no incident"):
        await store.incidents.find("@1")
    first, second = incident(run.id, ident="abc1"), incident(run.id, ident="abd2")
    await store.apply(Decision(run=run, incidents=(first, second)))
    assert await store.incidents.find("abc") == first
    assert await store.incidents.find("abc1") == first
    assert await store.incidents.find("dflash") == second
    with pytest.raises(NoSuchRun, match="several incidents"):
        await store.incidents.find("ab")
    with pytest.raises(NoSuchRun, match="no incident and no run zz"):
        await store.incidents.find("zz")


async def test_earlier_run_by_fingerprint_or_family(store: Store) -> None:
    """The earliest earlier run with the fingerprint or the family is found, never a later one."""
    runs = [await store.runs.create(draft()) for _ in range(11)]
    for number, fingerprint, family in (
        (2, "v1:aa", "fx"),
        (3, "v1:bb", "fx"),
        (11, "v1:cc", None),
    ):
        opened = incident(
            f"dflash-{number}", ident=f"i{number}", fingerprint=fingerprint, family=family
        )
        await store.apply(Decision(run=runs[number - 1], incidents=(opened,)))

    async def earlier(run: str, fingerprint: str, family: str | None) -> str | None:
        return await store.incidents.earlier(
            job="dflash", run=run, fingerprint=fingerprint, family=family
        )

    assert await earlier("dflash-10", "v1:bb", None) == "dflash-3"
    assert await earlier("dflash-10", "v1:new face", "fx") == "dflash-2"
    assert await earlier("dflash-2", "v1:aa", "fx") is None
    assert await earlier("dflash-4", "v1:cc", None) is None


async def test_decision_is_stored_whole(store: Store) -> None:
    """Run, attempt, incident, delivery, action and journal of a decision are all there after."""
    run = await store.runs.create(draft())
    opened = incident(run.id)
    launch = Action(kind=ActionKind.LAUNCH, run=run.id, attempt=1)
    running = replace(run, state=RunState.RUNNING, incident="i1")
    attempt = Attempt(number=1, directory="/a/1", started_at=3.0)
    applied = await store.apply(
        Decision(
            run=running,
            attempts=(attempt,),
            incidents=(opened,),
            outgoing=(outgoing("i1", sinks=("ops", "phone")),),
            actions=(launch,),
            notes=(Note(kind="run.running", body={"attempt": 1}),),
        )
    )
    view = await store.view(run.id)
    assert (applied.enqueued, applied.actions) == (2, (launch,))
    assert (view.run, view.attempts, view.incidents) == (running, (attempt,), (opened,))
    assert [one.sink for one in await store.deliveries.pending()] == ["ops", "phone"]
    assert [one.kind for one in await store.journal.of(run.id, limit=9)] == ["run.running"]


async def test_decision_fails_whole(store: Store) -> None:
    """Where one part cannot be stored, no part is."""
    run = await store.runs.create(draft())
    unstorable: Any = {"x": object()}
    bad = replace(outgoing("i1"), alert=replace(outgoing("i1").alert, annotations=unstorable))
    with pytest.raises(Exception, match="JSON serializable"):
        await store.apply(
            Decision(run=run, incidents=(incident(run.id),), outgoing=(outgoing("i0"), bad))
        )
    assert await store.incidents.list() == ()
    assert await store.deliveries.pending() == ()


async def test_decision_reached_twice_adds_nothing(store: Store) -> None:
    """The same decision after a crash repeats no action and no delivery, also when done."""
    run = await store.runs.create(draft())
    launch = Action(kind=ActionKind.LAUNCH, run=run.id, attempt=1)
    decision = Decision(run=run, outgoing=(outgoing("i1"),), actions=(launch,))
    await store.apply(decision)
    again = await store.apply(decision)
    assert (again.actions, again.enqueued) == ((), 0)
    assert await store.actions.pending() == (launch,)
    await store.actions.done(launch)
    assert (await store.apply(decision)).actions == ()
    assert await store.actions.pending(run.id) == ()


async def test_result_marks_its_action_done(store: Store) -> None:
    """An action is pending until the decision on its result is stored, whole or not at all."""
    run = await store.runs.create(draft())
    launch = Action(kind=ActionKind.LAUNCH, run=run.id, attempt=1)
    stop = Action(kind=ActionKind.STOP, run=run.id, attempt=1, reason="human")
    await store.apply(Decision(run=run, actions=(launch, stop)))
    await store.apply(Decision(run=run, done=frozenset({ActionKind.LAUNCH})))
    assert await store.actions.pending() == (stop,)


async def test_cancelled_action_is_not_pending(store: Store) -> None:
    """A stop takes a pending relaunch away."""
    run = await store.runs.create(draft())
    relaunch = Action(kind=ActionKind.RELAUNCH, run=run.id, attempt=2, at=99.0)
    await store.apply(Decision(run=run, actions=(relaunch,)))
    assert await store.actions.is_pending(relaunch)
    await store.apply(Decision(run=run, cancel=frozenset({ActionKind.RELAUNCH})))
    assert not await store.actions.is_pending(relaunch)


async def test_stop_reason_belongs_to_the_present_attempt(store: Store) -> None:
    """A stop of attempt 1 says nothing about attempt 2."""
    run = await store.runs.create(draft())
    stop = Action(kind=ActionKind.STOP, run=run.id, attempt=1, grace_s=5.0, reason="human")
    await store.apply(Decision(run=run, actions=(stop,)))
    assert (await store.view(run.id)).stop_reason == "human"
    await store.apply(Decision(run=replace(run, attempt=2)))
    assert (await store.view(run.id)).stop_reason is None


async def test_decision_leaves_metrics_alone(store: Store) -> None:
    """A decision from an older view does not undo metrics that came meanwhile."""
    run = await store.runs.create(draft())
    await store.runs.update(run.id, step=12, loss=3.5, metrics={"lr": 0.1})
    await store.apply(Decision(run=replace(run, state=RunState.RUNNING)))
    stored = await store.runs.get(run.id)
    assert (stored.state, stored.step, stored.loss) == (RunState.RUNNING, 12, 3.5)
    assert stored.metrics == {"lr": 0.1}


async def test_older_view_does_not_undo_an_acknowledgement(store: Store) -> None:
    """An incident's state only moves on."""
    run = await store.runs.create(draft())
    opened = incident(run.id)
    acknowledged = replace(opened, state=IncidentState.ACKNOWLEDGED)
    await store.apply(Decision(run=run, incidents=(opened,)))
    await store.apply(Decision(run=run, incidents=(acknowledged,)))
    await store.apply(Decision(run=run, incidents=(replace(opened, occurrences=2),)))
    stored = await store.incidents.find("i1")
    assert (stored.state, stored.occurrences) == (IncidentState.ACKNOWLEDGED, 2)
    assert await store.incidents.unresolved_of_job("dflash") == (stored,)


async def test_resolved_goes_where_firing_went(store: Store) -> None:
    """A sink that was told nothing is not told that it is over."""
    run = await store.runs.create(draft())
    told = ("ops",)
    await store.apply(Decision(run=run, outgoing=(outgoing("i1", sinks=told),)))
    both = ("ops", "phone")
    await store.apply(Decision(run=run, outgoing=(outgoing("i1", "resolved", sinks=both),)))
    sent = [(one.sink, one.alert.status) for one in await store.deliveries.of_incident("i1")]
    assert sent == [("ops", "firing"), ("ops", "resolved")]


async def test_deliveries_are_marked(store: Store) -> None:
    """Delivered, failed and disabled deliveries are counted and only pending ones come back."""
    run = await store.runs.create(draft())
    woken: list[int] = []
    store.deliveries.subscribe(lambda: woken.append(1))
    for ident in ("i1", "i2", "i3"):
        await store.apply(Decision(run=run, outgoing=(outgoing(ident),)))
    await store.deliveries.delivered(("i1-firing/ops",), 5.0)
    await store.deliveries.failed(("i2-firing/ops",), "500", 9.0)
    pending = await store.deliveries.pending()
    assert [(one.id, one.attempts, one.error) for one in pending] == [
        ("i2-firing/ops", 1, "500"),
        ("i3-firing/ops", 0, None),
    ]
    await store.deliveries.disable("ops", "410")
    assert await store.deliveries.counts() == {"ops": {"delivered": 1, "disabled": 2}}
    assert len(woken) == 3


async def test_small_tables(store: Store) -> None:
    """Releases, silences and values give back what they were given."""
    release = Release(digest="d1", path="/r/d1/trainer", files=3, bytes=9)
    await store.releases.add(release, job="dflash", target="ct200", provenance={"commit": "c"})
    current = await store.releases.current("dflash", "ct200")
    assert current is not None
    assert (current.release, current.provenance) == (release, {"commit": "c"})
    assert await store.releases.current("dflash", "other") is None
    assert not current.looked
    assert await store.releases.environment("dflash", "ct200", "d1", float("inf")) is None
    number = await store.releases.add(release, job="dflash", target="ct200")
    await store.releases.keep_environment(number, {"torch": "2.13.0"})
    seen = await store.releases.environment("dflash", "ct200", "d1", float("inf"))
    assert seen == {"torch": "2.13.0"}
    assert [one.looked for one in await store.releases.list("dflash")] == [True, False]
    assert await store.releases.find("dflash", "ct200", "d1") == release
    assert await store.releases.find("dflash", "ct200", None) is None
    older = replace(release, digest="d0")
    await store.releases.add(older, job="dflash", target="ct200", kind="rollback")
    await store.releases.add(release, job="other", target="ct200")
    newest = {("dflash", "ct200"): "d0", ("other", "ct200"): release.digest}
    assert await store.releases.digests() == newest, "of each place what came last"

    silence = await store.silences.add({"job": "dflash"}, until=None, why="tonight")
    assert await store.silences.list() == (silence,)
    assert await store.silences.expire(silence.id)
    assert not await store.silences.expire(silence.id)
    (over,) = await store.silences.list()
    assert over.until is not None, "it is kept among those that are over"

    await store.values.set("k", {"a": 1})
    await store.values.set("k", [2])
    assert await store.values.get("k") == [2]
    assert await store.values.get("other") is None


async def test_journal_tells_of_one_run(store: Store) -> None:
    """The newest lines of a run, in their order; what is too old is forgotten."""
    for kind in ("a", "b", "c"):
        await store.journal.add(Note(kind=kind, body={"n": kind}), run="dflash-1")
    await store.journal.add(Note(kind="other"), run="dflash-2")
    kept = await store.journal.of("dflash-1", limit=2)
    assert [(one.kind, one.body) for one in kept] == [("b", {"n": "b"}), ("c", {"n": "c"})]
    await store.prune(Kept(row_age_s=-60.0))
    assert await store.journal.of("dflash-1", limit=9) == ()


HOSTILE = "a\0b \ud800 \udcff c\u202e"
"""What a program may print, and what a decoder may make of it."""


async def test_text_that_no_database_takes_fails_no_transaction(store: Store) -> None:
    """The character 0 and halves of surrogate pairs, in every text that comes from outside."""
    created = await store.runs.create(replace(draft(), why=HOSTILE, env={"A": HOSTILE}))
    bad = replace(incident(created.id), title=HOSTILE, finding={"text": HOSTILE})
    note = Note(kind="command", body={"why": HOSTILE})
    action = Action(kind=ActionKind.STOP, run=created.id, attempt=1, reason=HOSTILE)
    await store.apply(
        Decision(
            run=created,
            incidents=(bad,),
            outgoing=(outgoing(bad.id),),
            actions=(action,),
            notes=(note,),
        )
    )
    await store.runs.update(created.id, phase=HOSTILE, metrics={"word": HOSTILE})
    await store.actions.done(action, error=HOSTILE)
    (due,) = await store.deliveries.pending()
    await store.deliveries.failed((due.id,), HOSTILE, next_at=1.0)
    await store.silences.add({"job": HOSTILE}, until=None, why=HOSTILE)
    kept = await store.runs.get(created.id)
    assert kept.why.startswith("a")
    assert "b \ufffd \ufffd c" in kept.why
    assert str(kept.phase).encode()
    assert (await store.incidents.find(bad.id)).title == kept.why
    with pytest.raises(NoSuchRun):
        await store.runs.find(HOSTILE)


async def test_actions_are_told_with_their_outcome(store: Store) -> None:
    """What was done, given up and is still to be done of a run, in order."""
    run = await store.runs.create(draft())
    launch = Action(kind=ActionKind.LAUNCH, run=run.id, attempt=1)
    look = Action(kind=ActionKind.COLLECT_EVIDENCE, run=run.id, attempt=1)
    await store.apply(Decision(run=run, actions=(launch, look)))
    await store.actions.done(look, error="the disk is full")
    told = await store.actions.of(run.id)
    assert [(one.action, one.state, one.error) for one in told] == [
        (launch, "pending", None),
        (look, "done", "the disk is full"),
    ]


async def test_everything_survives_a_reopening(tmp_path: Path) -> None:
    """A second daemon finds runs and pending work of the first one."""
    first = await Store.open(tmp_path, SystemClock())
    run = await first.runs.create(draft())
    launch = Action(kind=ActionKind.LAUNCH, run=run.id, attempt=1)
    await first.apply(Decision(run=run, actions=(launch,), outgoing=(outgoing("i1"),)))
    await first.close()
    with pytest.raises(StoreError, match="closed"):
        await first.runs.list()
    second = await Store.open(tmp_path, SystemClock())
    assert await second.runs.list(live=True) == (run,)
    assert await second.actions.pending() == (launch,)
    assert len(await second.deliveries.pending()) == 1
    await second.close()


async def test_cool_down_leaves_out_sinks_that_were_told_lately(store: Store) -> None:
    """The same failure of the same job is told once in the time; without one it is told again."""
    run = await store.runs.create(draft())
    for number in range(3):
        warm = replace(outgoing(f"i{number}"), cool_down_s=600.0 if number < 2 else 0.0)
        made = incident(run.id, ident=f"i{number}", fingerprint=f"v1:{number}")
        await store.apply(Decision(run=run, incidents=(made,), outgoing=(warm,)))
    assert [one.alert.incident for one in await store.deliveries.pending()] == ["i0", "i2"]
    over = replace(outgoing("i1", "resolved"))
    await store.apply(Decision(run=run, outgoing=(over,)))
    assert len(await store.deliveries.pending()) == 2


async def test_quiet_hours_make_a_delivery_due_later(store: Store) -> None:
    """What is kept back is due at their end, and told apart from what waits for a retry."""
    run = await store.runs.create(draft())
    later = replace(outgoing("i1"), not_before=4_000_000_000.0)
    await store.apply(Decision(run=run, incidents=(incident(run.id),), outgoing=(later,)))
    (one,) = await store.deliveries.pending()
    assert one.next_at == 4_000_000_000.0 > one.created_at


async def test_a_number_that_two_jobs_have_is_asked_for(store: Store) -> None:
    """`1` alone means a run only where one job has a run 1."""
    for job in ("dflash", "eagle"):
        await store.runs.create(draft(job))
    with pytest.raises(NoSuchRun, match="Several jobs have a run 1: eagle-1, dflash-1"):
        await store.runs.find("1")
