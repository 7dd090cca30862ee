"""The API's questions, each handed to the file that answers it."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from importlib.metadata import version
from typing import Any, TypeVar

from orchestrator.api import messages
from orchestrator.api.forwarding import Elsewhere
from orchestrator.api.server import Archive, LogRange
from orchestrator.api.streaming import Message, Stream
from orchestrator.core.errors import UsageError
from orchestrator.daemon import (
    adopting,
    bundling,
    caching,
    comparing,
    doctor,
    elsewhere,
    ending,
    explaining,
    following,
    launching,
    moving,
    pruning,
    queries,
    releasing,
    searching,
    shipping,
    silences,
    simulating,
    telling,
    timeline,
    trials,
    waiting,
)
from orchestrator.daemon.asked import checked
from orchestrator.daemon.environment import wanted_names
from orchestrator.daemon.parts import Parts

Said = Mapping[str, Any]
Answer = Callable[[Parts, str, Said], Awaitable[Message]]
Kind = TypeVar("Kind")

_DOCUMENTS: dict[str, Answer] = {
    "runs": lambda parts, _, query: queries.runs(parts, query),
    "run": lambda parts, words, _: queries.run(parts, words),
    "metrics": queries.metrics,
    "gpus": lambda parts, words, _: queries.gpus(parts, words),
    "wait": waiting.wait,
    "wait-any": lambda parts, _, query: waiting.wait_for_any(parts, query),
    "incidents": lambda parts, _, query: queries.incidents(parts, query),
    "incident": lambda parts, words, _: queries.incident(parts, words),
    "explain": lambda parts, words, _: explaining.explained(parts, words),
    "diff": comparing.diff,
    "environment": lambda parts, words, _: comparing.environment_of(parts, words),
    "timeline": lambda parts, words, _: timeline.timeline(parts, words),
    "compare": lambda parts, _, query: trials.compare(parts, query),
    "cache": lambda parts, _, query: caching.caches(parts, query),
    "releases": lambda parts, _, query: telling.releases(parts, query),
    "releases-there": lambda parts, _, query: releasing.kept(parts, query),
    "silences": lambda parts, _, query: silences.silences(parts, query),
    "top": lambda parts, *_: telling.top(parts),
    "doctor": lambda parts, *_: doctor.doctor(parts),
}
_STREAMS: dict[str, Callable[[Parts, str, Said], Stream]] = {
    "follow": following.follow,
    "search": searching.search,
    "deploy": lambda parts, _, body: shipping.deploy(
        parts, body.get("jobs") or [], dry_run=bool(body.get("dry_run"))
    ),
    "run": lambda parts, _, body: launching.run(parts, launching.RunRequest.of(body)),
    "adopt": lambda parts, _, body: adopting.adopt(parts, body),
    "repeat": lambda parts, _, body: trials.repeat(parts, body),
    "bisect": lambda parts, _, body: trials.bisect(parts, body),
    "simulate": lambda parts, _, body: simulating.simulate(parts, body),
    "stop": lambda parts, words, body: launching.stop(parts, words, body.get("grace_s")),
}
_READING = {"follow", "search"}
_OF_A_RUN = {
    *("run", "metrics", "gpus", "wait", "incident", "explain", "diff", "environment", "timeline"),
    "ack",
}
"""Where the words mean a run, which may be one of those that come back."""
_ACTIONS: dict[str, Answer] = {
    "ack": lambda parts, words, _: silences.acknowledge(parts, words),
    "silence-add": lambda parts, _, body: silences.add(parts, body),
    "silence-expire": lambda parts, words, _: silences.expire(parts, words),
    "end-process": ending.end_process,
    "prune-target": pruning.prune_target,
    "give-up": moving.give_up,
    "cache-save": lambda parts, _, body: caching.save(parts, body),
    "cache-restore": lambda parts, _, body: caching.restore(parts, body),
    "cache-clear": lambda parts, _, body: caching.clear(parts, body),
    "prune": lambda parts, _, body: pruning.prune(parts, body),
    "rollback": lambda parts, _, body: releasing.rollback(
        parts, body.get("job"), body.get("release")
    ),
    "alert-test": lambda parts, _, body: telling.alert_test(parts, body.get("sink")),
}


def _known(table: Mapping[str, Kind], what: str) -> Kind:
    if what not in table:
        raise UsageError(f"{what}: nothing of that name is known.")
    return table[what]


class DaemonBackend:
    """What the daemon can do for a client."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._version = version("orch")

    def ask_to_end(self) -> None:
        """End the daemon; the runs go on."""
        self._parts.ending.set()

    def accept_environment(self, values: Mapping[str, str]) -> Message:
        """Keep the values of wanted names, in memory."""
        taken = self._parts.environment.accept(values, wanted_names(self._parts.inventory))
        self._parts.outbox.poke()
        return {"accepted": taken.names, "replaced": taken.replaced}

    async def daemon_view(self) -> messages.DaemonView:
        """The daemon itself."""
        await self._parts.file.refresh()
        return await telling.daemon_view(self._parts, self._version)

    async def snapshot(self, since: int | None) -> messages.Snapshot:
        """The whole state, or what changed after a cursor."""
        shown = self._parts.board.snapshot(await self.daemon_view(), since)
        return {**shown, "targets": self._parts.fleet.heard(shown["targets"])}

    async def changes(self, since: int) -> AsyncGenerator[messages.Snapshot, None]:
        """What changed, whenever it does."""
        async for cursor in self._parts.board.changes(since):
            yield await self.snapshot(cursor)

    async def get(self, what: str, words: str, query: Mapping[str, str]) -> Message:
        """One document."""
        await self._parts.file.refresh()
        if what in _OF_A_RUN:
            await self._parts.back.settle_on(words)
        return await _known(_DOCUMENTS, what)(self._parts, words, query)

    async def log_range(self, words: str, query: Mapping[str, str]) -> LogRange:
        """A range of a log."""
        await self._parts.back.settle_on(words)
        return await queries.log_range(self._parts, words, query)

    def stream(self, what: str, words: str, body: Mapping[str, Any]) -> Stream:
        """One stream."""
        if what not in _READING:
            self._parts.footing.require()
        answer = _known(_STREAMS, what)(self._parts, words, self._taken(what, body))
        return answer if what in _READING else self._up_to_date(answer)

    async def _up_to_date(self, answer: Stream) -> Stream:
        """An answer that begins once the newest edit of the inventory was read."""
        await self._parts.file.refresh(again=True)
        async for message in answer:
            yield message

    async def archive(self, words: str) -> Archive:
        """A run's bundle."""
        await self._parts.back.settle_on(words)
        return await bundling.bundle(self._parts, words)

    async def act(self, what: str, words: str, body: Mapping[str, Any]) -> Message:
        """One action with a short answer."""
        self._parts.footing.require()
        await self._parts.file.refresh(again=True)
        if what in _OF_A_RUN:
            await self._parts.back.settle_on(words)
        return await _known(_ACTIONS, what)(self._parts, words, self._taken(what, body))

    def covered(self, answer: bytes, *, is_json: bool) -> bytes:
        """An answer as it may be sent, without any secret's value."""
        return self._parts.cover.answer(answer, is_json=is_json)

    def _taken(self, what: str, body: Said) -> Said:
        """A request's body, checked; a person's reason is kept without a secret."""
        why = checked(what, body).get("why")
        return {**body, "why": self._parts.cover.text(why)} if why else body

    async def elsewhere(self, words: str, what: str) -> Elsewhere | None:
        """The daemon of the fleet that has to answer; None: this one."""
        return await elsewhere.elsewhere(self._parts, words, what)

    def metrics_text(self) -> str:
        """Prometheus' text form."""
        from orchestrator.daemon import exposition  # its library, only where somebody scrapes

        return exposition.text(self._parts.board)
