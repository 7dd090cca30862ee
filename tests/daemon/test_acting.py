"""The actions of one decision are done in their order, and none behind a refusal."""

import asyncio
from dataclasses import fields, replace
from typing import Any

from orchestrator.acting import Actor, Stages
from orchestrator.clock import SystemClock
from orchestrator.core.decide.decision import Action, ActionKind, Decision
from orchestrator.core.decide.inputs import Input, LaunchFailed
from orchestrator.core.errors import Check, PreflightRefused
from orchestrator.core.model import RunState
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


async def nothing(*_: object) -> None:
    """What the daemon gives besides, and is not needed here."""


def stages(store: Store, link: Refusing) -> Stages:
    """What a supervisor's actor has, with that link."""
    given: dict[str, Any] = dict.fromkeys((one.name for one in fields(Stages)), nothing)
    given |= {"store": store, "link": link, "clock": SystemClock(), "gpus": lambda: None}
    return Stages(**{**given, "lookup": lambda _: None, "own_alert": False})


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
