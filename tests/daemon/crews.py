"""A crew's inventory, clock and runs, for tests of what it does with them."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from orchestrator.clock import SystemClock
from orchestrator.core.decide.decision import Decision
from orchestrator.core.findings import Outcome, Verdict
from orchestrator.core.inventory.build import parse_inventory
from orchestrator.core.model import RESTART, Attempt, Host, Inventory, RestartPolicy, Run, RunState
from orchestrator.store import Store
from tests.store.nouns import draft

INVENTORY = b"""
version: 1
hosts: {here: {transport: local}, there: {transport: local}, gone: {hostname: 127.0.0.1, port: 1}}
targets: {ct200: {host: here}, ct201: {host: there}, ct202: {host: gone}}
jobs:
  dflash: {target: ct200, workdir: /proc/nowhere, command: sleep 1}
  other: {target: ct201, workdir: /nowhere, command: sleep 1}
  away: {target: ct202, workdir: /nowhere, command: sleep 1}
"""
WITHIN_S = 30.0


def own_key() -> Callable[[Host], str]:
    """A daemon's name for hosts that no other test has: another worker's would evict our probe."""
    key = f"test-{secrets.token_hex(4)}"
    return lambda _: key


class HastyClock(SystemClock):
    """Pauses are short: who waits for a second look need not wait long for it."""

    ahead_s = 0.0
    """What is put on its time."""

    def monotonic(self) -> float:
        """As it is, or later."""
        return super().monotonic() + self.ahead_s

    async def sleep(self, seconds: float) -> None:
        """At most a moment."""
        await super().sleep(min(seconds, 0.05))


@dataclass(slots=True)
class Source:
    """Where a crew gets its inventory from; it may fail as nobody thought of."""

    text: bytes = INVENTORY
    fails: bool = False
    failures: int = 0

    def inventory(self) -> Inventory:
        """The inventory of these tests."""
        if self.fails:
            self.failures += 1
            raise ValueError("as nobody thought of")
        return parse_inventory(
            self.text, path="i.yaml", folder="/", exists=lambda _: True, home="/root"
        )


NEVER = RestartPolicy()
"""The policy of a job that has none."""
EDITED = RestartPolicy(on=("infra",))
"""Another one, which the job had before it was edited."""


def waiting(by: RestartPolicy | None = NEVER) -> Run:
    """A run in its back-off, as that policy said; None: as an older orch stored it."""
    verdict = Verdict(verdict=Outcome.CRASHED, crash=True, signature="nccl_error")
    restart = {"said": "Restarting.", "at": 9e9, **({"by": by.words} if by else {})}
    return replace(draft(), state=RunState.BACKOFF, verdict={**verdict.to_json(), RESTART: restart})


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


async def is_over(store: Store, run: Run) -> bool:
    """Whether a run has ended."""
    return (await state(store, run)).ended
