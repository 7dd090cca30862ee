"""Which runs a crew takes up and lets go, and what of them it knows afterwards."""

import asyncio
import gc
import time
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from orchestrator.clock import SystemClock
from orchestrator.core.decide.decision import Action, ActionKind, Decision
from orchestrator.core.decide.inputs import AckAsked, StopAsked
from orchestrator.core.errors import AuthRefused, HostKeyRefused, NotDriven, TargetError
from orchestrator.core.events import SessionChanged
from orchestrator.core.findings import Outcome, Verdict
from orchestrator.core.inventory.build import parse_inventory
from orchestrator.core.model import (
    RESTART,
    Attempt,
    Host,
    Inventory,
    RestartPolicy,
    Run,
    RunState,
)
from orchestrator.daemon.board import Board
from orchestrator.daemon.crew import Crew
from orchestrator.daemon.environment import Environment
from orchestrator.daemon.fleet import Fleet
from orchestrator.inbox import Inbox
from orchestrator.link.calls import CallFailed
from orchestrator.patience import is_to_wait
from orchestrator.probe.fence import Fenced
from orchestrator.store import Store
from orchestrator.transport.pool import Pool
from tests.store.nouns import draft

INVENTORY = b"""
version: 1
hosts: {here: {transport: local}, there: {transport: local}}
targets: {ct200: {host: here}, ct201: {host: there}}
jobs:
  dflash: {target: ct200, workdir: /proc/nowhere, command: sleep 1}
  other: {target: ct201, workdir: /nowhere, command: sleep 1}
"""
WITHIN_S = 30.0


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """An empty store."""
    opened = await Store.open(tmp_path, SystemClock())
    yield opened
    await opened.close()


@pytest.fixture
def elsewhere() -> dict[str, type[TargetError]]:
    """Hosts that went to another daemon while a crew was looking, or let it in no more."""
    return {}


class HastyClock(SystemClock):
    """Pauses are short: who waits for a second look need not wait long for it."""

    async def sleep(self, seconds: float) -> None:
        """At most a moment."""
        await super().sleep(min(seconds, 0.05))


@dataclass(slots=True)
class Source:
    """Where a crew gets its inventory from; it may fail as nobody thought of."""

    fails: bool = False
    failures: int = 0

    def inventory(self) -> Inventory:
        """The inventory of these tests."""
        if self.fails:
            self.failures += 1
            raise ValueError("as nobody thought of")
        return parse_inventory(
            INVENTORY, path="i.yaml", folder="/", exists=lambda _: True, home="/root"
        )


@pytest.fixture
def source() -> Source:
    """The source of the crew's inventory."""
    return Source()


@pytest.fixture
async def crew(
    store: Store, tmp_path: Path, elsewhere: dict[str, type[TargetError]], source: Source
) -> AsyncIterator[Crew]:
    """A crew with nobody to supervise yet."""
    clock, board = HastyClock(), Board(SystemClock())

    def token_of(host: Host) -> int:
        if host.name in elsewhere:
            raise elsewhere[host.name](f"{host.name} is not ours to reach.", target=host.name)
        return 1

    async with AsyncExitStack() as stack:
        pool = Pool()
        stack.push_async_callback(pool.close)
        fleet = Fleet(pool, clock, board, lambda _: "test", token_of)
        stack.push_async_callback(fleet.close)
        made = Crew(
            store=store,
            board=board,
            fleet=fleet,
            clock=clock,
            environment=Environment({}, tmp_path / "env", time.monotonic),
            inventory=source.inventory,
            drives=lambda _: True,
            evidence=tmp_path,
        )
        stack.push_async_callback(made.close)
        yield made


NEVER = RestartPolicy()
"""The policy of a job that has none."""
EDITED = RestartPolicy(on=("infra",))
"""Another one, which the job had before it was edited."""


def waiting(by: RestartPolicy | None = NEVER) -> Run:
    """A run in its back-off, as that policy said; None: as an older orch stored it."""
    verdict = Verdict(verdict=Outcome.CRASHED, crash=True, signature="nccl_error")
    restart = {"said": "Restarting.", "at": 9e9, **({"by": by.words} if by else {})}
    return replace(draft(), state=RunState.BACKOFF, verdict={**verdict.to_json(), RESTART: restart})


async def test_a_run_that_is_being_stored_is_not_forsaken(crew: Crew, store: Store) -> None:
    """A look for runs without a supervisor, which may come at any moment, leaves it alone."""
    asked = replace(draft(), state=RunState.PENDING)
    with crew.beginning(asked.uid):
        run = await store.runs.create(asked)
        await crew.take_up()
        assert (await store.runs.get(run.id)).state is RunState.PENDING
    await crew.take_up()
    assert (await store.runs.get(run.id)).state is not RunState.PENDING


async def stored(store: Store, run: Run) -> Run:
    """A run as a daemon left it, with one attempt that ended."""
    made = await store.runs.create(replace(run, state=RunState.PENDING))
    await store.runs.put(replace(made, state=run.state))
    view = await store.view(made.id)
    attempt = Attempt(number=1, directory="/nowhere", started_at=1.0, ended_at=2.0, exit_code=1)
    await store.apply(Decision(run=view.run, attempts=(attempt,)))
    return view.run


async def until(holds: Callable[[], Awaitable[object]]) -> None:
    """Wait until it holds."""
    async with asyncio.timeout(WITHIN_S):
        while not await holds():
            await asyncio.sleep(0.05)


async def state(store: Store, run: Run) -> RunState:
    """As the store has it."""
    return (await store.runs.get(run.id)).state


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


async def is_over(store: Store, run: Run) -> bool:
    """Whether a run has ended."""
    return (await state(store, run)).ended


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
