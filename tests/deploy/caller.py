"""The far side's ops, called in this process on a real folder: a link without the link."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from orchestrator.link.answers import wrong_answer
from orchestrator.link.calls import CallFailed
from orchestrator.probe import caches, environment, preflight, release
from orchestrator.probe.errors import OpError

OPS: dict[str, Any] = {**release.OPS, **preflight.OPS, **environment.OPS, **caches.OPS}


class NearCaller:
    """Runs ops in threads; arguments and values go through JSON, as they would on the wire."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.sent_bytes = 0
        self.bytes_per_s = float("inf")
        """What the link that is not there would take."""
        self.at_work = 0
        """Calls that are running in threads, whether or not anybody waits for them."""

    async def call(
        self,
        op: str,
        *,
        timeout_s: float,
        on_progress: Callable[[dict[str, Any]], None] | None = None,
        raw: bytes | None = None,
        **args: Any,
    ) -> Any:
        """One op; its OpError as the link would raise it."""
        self.calls.append(op)
        travelled = json.loads(json.dumps(args))
        if raw is not None:
            self.sent_bytes += len(raw)
            await asyncio.sleep(len(raw) / self.bytes_per_s)
            travelled["data"] = bytearray(raw)
        async with asyncio.timeout(timeout_s):
            try:
                value = await asyncio.to_thread(
                    self._work, OPS[op], travelled, on_progress or (lambda _news: None)
                )
            except OpError as exc:
                raise CallFailed(
                    exc.message, target="near", op=op, error_type=exc.type, remedy=exc.remedy
                ) from exc
        came = json.loads(json.dumps(value))
        assert wrong_answer(op, came) is None
        return came

    def _work(self, op: Any, args: dict[str, Any], progress: Any) -> Any:
        self.at_work += 1
        try:
            return op(args, progress)
        finally:
            self.at_work -= 1
