"""The API's questions, each handed to the file that answers it."""

from collections.abc import AsyncGenerator, Mapping
from importlib.metadata import version
from typing import Any

from orchestrator.api import messages
from orchestrator.api.server import LogRange, Message, Stream
from orchestrator.core.errors import UsageError
from orchestrator.daemon import doctor, exposition, launching, queries, shipping, telling
from orchestrator.daemon.environment import wanted_names
from orchestrator.daemon.parts import Parts


class DaemonBackend:
    """What the daemon can do for a client."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def ask_to_end(self) -> None:
        """End the daemon; the runs go on."""
        self._parts.ending.set()

    def accept_environment(self, values: Mapping[str, str]) -> list[str]:
        """Keep the values of wanted names, in memory."""
        taken = self._parts.environment.accept(values, wanted_names(self._parts.inventory))
        self._parts.outbox.poke()
        return taken

    async def daemon_view(self) -> messages.DaemonView:
        """The daemon itself."""
        return await telling.daemon_view(self._parts, version("orch"))

    async def snapshot(self, since: int | None) -> messages.Snapshot:
        """The whole state, or what changed after a cursor."""
        return self._parts.board.snapshot(await self.daemon_view(), since)

    async def changes(self, since: int) -> AsyncGenerator[messages.Snapshot, None]:
        """What changed, whenever it does."""
        async for cursor in self._parts.board.changes(since):
            yield self._parts.board.snapshot(await self.daemon_view(), cursor)

    async def get(  # noqa: C901  a table of routes
        self, what: str, words: str, query: Mapping[str, str]
    ) -> Message:
        """One document."""
        parts = self._parts
        match what:
            case "runs":
                return await queries.runs(parts, query)
            case "run":
                run = await parts.store.runs.find(words)
                return dict(await parts.crew.view(run.id, run))
            case "metrics":
                return await queries.metrics(parts, words, query)
            case "gpus":
                return await queries.gpus(parts, words)
            case "wait":
                return await queries.wait(parts, words, query)
            case "incidents":
                return await queries.incidents(parts, query)
            case "incident":
                return await queries.incident(parts, words)
            case "explain":
                return await telling.explain(parts, words)
            case "releases":
                return await telling.releases(parts, query)
            case "top":
                return {"targets": parts.board.views("targets")}
            case "doctor":
                return await doctor.doctor(parts)
            case _:
                raise UsageError(f"{what}: nothing of that name is known.")

    async def log_range(self, words: str, query: Mapping[str, str]) -> LogRange:
        """A range of a log."""
        return await queries.log_range(self._parts, words, query)

    def stream(self, what: str, words: str, body: Mapping[str, Any]) -> Stream:
        """One stream."""
        parts = self._parts
        match what:
            case "follow":
                return queries.follow(parts, words, body)
            case "deploy":
                jobs = body.get("jobs") or []
                return shipping.deploy(parts, jobs, dry_run=bool(body.get("dry_run")))
            case "run":
                return launching.run(parts, launching.RunRequest.of(body))
            case "stop":
                return launching.stop(parts, words, body.get("grace_s"))
            case _:
                raise UsageError(f"{what}: nothing of that name can be followed.")

    async def act(self, what: str, words: str, body: Mapping[str, Any]) -> Message:
        """One action with a short answer."""
        parts = self._parts
        match what:
            case "ack":
                incident = await parts.store.incidents.find(words)
                await parts.crew.acknowledge(incident)
                return await queries.incident(parts, incident.id)
            case "rollback":
                return await shipping.rollback(parts, body.get("job"), body.get("release"))
            case "alert-test":
                return await telling.alert_test(parts, body.get("sink"))
            case _:
                raise UsageError(f"{what}: nothing of that name can be done.")

    def metrics_text(self) -> str:
        """Prometheus' text form."""
        return exposition.text(self._parts.board)
