"""The actions of one decision are done in their order, and none behind a refusal."""

import asyncio
import contextlib
from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any

from orchestrator.acting import Actor, Stages
from orchestrator.clock import SystemClock
from orchestrator.core.decide.decision import Action, ActionKind, Decision
from orchestrator.core.decide.inputs import Input, LaunchFailed
from orchestrator.core.errors import Check, PreflightRefused
from orchestrator.core.model import LinkState, RunState
from orchestrator.store import Store
from tests.daemon.crews import Source, stored, waiting


class Refusing:
    """A link to a target on which the next attempt may not begin."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def call(self, op: str, **_: Any) -> Any:
        """Refused, whatever it is."""
        self.asked.append(op)
        check = Check("ports", ok=False, text="port 29500 is in use")
        raise PreflightRefused("preflight refused", checks=(check,))


class Starting:
    """A link to a target on which a launch takes its time: it is there once an end was tried."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self._tried = asyncio.Event()

    async def call(self, op: str, **_: Any) -> Any:
        """What a probe answers."""
        if op == "launch":
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._tried.wait(), 1.0)
        else:
            self._tried.set()
        self.done.append(op)
        return {"attempt_dir": "/nowhere", "started_at": 3.0, "gpu_holders": []}


async def nothing(*_: object) -> None:
    """What the daemon gives besides, and is not needed here."""


def stages(store: Store, link: Refusing | Starting) -> Stages:
    """What a supervisor's actor has, with that link."""
    given: dict[str, Any] = dict.fromkeys((one.name for one in fields(Stages)), nothing)
    given |= {"store": store, "link": link, "clock": SystemClock(), "gpus": lambda: None}
    machine = SimpleNamespace(link=SimpleNamespace(state=LinkState.UNREACHABLE))
    given |= {"machine": machine, "lookup": lambda _: None, "own_alert": False}
    return Stages(**given)


async def test_nothing_is_launched_behind_a_refusal(store: Store) -> None:
    """Also where what was refused is not decided on yet: its launch is stored, and due."""
    run = replace(await stored(store, waiting()), attempt=2, state=RunState.STARTING)
    kinds = (ActionKind.END_REMAINS, ActionKind.LAUNCH)
    actions = tuple(Action(kind=kind, run=run.id, attempt=2) for kind in kinds)
    applied = await store.apply(Decision(run=run, actions=actions))
    assert applied.actions == actions
    link, told = Refusing(), asyncio.Queue[Input]()
    job = Source().inventory().jobs["dflash"]
    actor = Actor(job, stages(store, link), lambda: run, told.put)
    async with asyncio.TaskGroup() as tasks:
        actor.act(applied.actions, tasks)
    result = told.get_nowait()
    assert isinstance(result, LaunchFailed)
    assert "port 29500 is in use" in result.text
    assert (told.empty(), link.asked) == (True, ["end"])


async def test_a_stop_waits_for_what_is_being_started(store: Store) -> None:
    """What is not there yet cannot be ended, and would run on once it is."""
    run = replace(await stored(store, waiting()), attempt=2, state=RunState.STARTING)
    launch, stop = (
        Action(kind=kind, run=run.id, attempt=2) for kind in (ActionKind.LAUNCH, ActionKind.STOP)
    )
    await store.apply(Decision(run=run, actions=(launch, stop)))
    link = Starting()
    job = Source().inventory().jobs["dflash"]
    actor = Actor(job, stages(store, link), lambda: run, nothing)
    async with asyncio.TaskGroup() as tasks:
        actor.act((launch,), tasks)
        actor.act((stop,), tasks)
    assert link.done == ["launch", "end"]
