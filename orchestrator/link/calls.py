"""The calls of one probe's life that wait for their answers.

Owns which frame belongs to which call, and what an answer that is none makes of it. Sends nothing;
the deadline of a call is moved here and kept by whoever waits.
"""

import asyncio
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from orchestrator.core.errors import RemoteCommandFailed, TargetError
from orchestrator.link.answers import wrong_answer, wrong_progress
from orchestrator.probe.frames import BadFrame, Frame
from orchestrator.transport.running import printable

Progress = Callable[[Any], None]


class CallFailed(RemoteCommandFailed):
    """The probe did what it was asked and it failed; `error_type` is the probe's word for it."""

    def __init__(
        self, message: str, *, target: str, op: str, error_type: str, remedy: str | None
    ) -> None:
        super().__init__(message, target=target, command=op, exit_status=None, remedy=remedy)
        self.error_type = error_type


@dataclass(slots=True)
class _Pending:
    op: str
    answer: asyncio.Future[Any]
    deadline: asyncio.Timeout
    timeout_s: float
    on_progress: Progress | None


class Calls:
    """All of them; the numbers that they bear are never used twice."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._ids = itertools.count(1)
        self._pending: dict[int, _Pending] = {}

    @property
    def any(self) -> bool:
        """Whether somebody waits for an answer."""
        return bool(self._pending)

    @contextmanager
    def begun(
        self, op: str, deadline: asyncio.Timeout, timeout_s: float, on_progress: Progress | None
    ) -> Iterator[tuple[int, asyncio.Future[Any]]]:
        """The number of a new call and its answer to come; the call is over with the context.

        Each progress sets `deadline` to `timeout_s` from then.
        """
        number = next(self._ids)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending[number] = _Pending(op, answer, deadline, timeout_s, on_progress)
        try:
            yield number, answer
        finally:
            del self._pending[number]
            if not answer.cancel() and not answer.cancelled():
                answer.exception()  # asyncio complains of one that nobody looked at

    def lose(self, problem: Callable[[str], TargetError]) -> None:
        """No answer comes any more: each gets the `problem` of its op."""
        for pending in self._pending.values():
            if not pending.answer.done():
                pending.answer.set_exception(problem(pending.op))

    def settle(self, frame: Frame) -> None:
        """Give a `result` to its call; BadFrame where it is none."""
        pending = self._asked(frame)
        if pending is None:
            return
        error = frame.get("error")
        if error is None:
            self._answer(pending, frame.get("value"))
            return
        if not isinstance(error, dict):
            raise BadFrame("`error` of a result is no object")
        remedy = error.get("remedy")
        pending.answer.set_exception(
            CallFailed(
                f"{self._target}: {_sentence(error.get('message'))}",
                target=self._target,
                op=pending.op,
                error_type=_sentence(error.get("type")),
                remedy=None if remedy is None else _sentence(remedy),
            )
        )

    def progress(self, frame: Frame) -> None:
        """Tell a call of its `progress`; BadFrame where it is none."""
        pending = self._asked(frame)
        if pending is None:
            return
        if (wrong := wrong_progress(pending.op, frame.get("value"))) is not None:
            raise BadFrame(f"progress of `{pending.op}` whose {wrong}")
        pending.deadline.reschedule(asyncio.get_running_loop().time() + pending.timeout_s)
        if pending.on_progress is not None:
            pending.on_progress(frame.get("value"))

    def _answer(self, pending: _Pending, value: Any) -> None:
        wrong = wrong_answer(pending.op, value)
        if wrong is None:
            pending.answer.set_result(value)
            return
        pending.answer.set_exception(
            CallFailed(
                f"{self._target}: the probe's answer to `{pending.op}` is none: "
                f"{_sentence(wrong)}.",
                target=self._target,
                op=pending.op,
                error_type="BadAnswer",
                remedy="See who else could speak for the probe there.",
            )
        )

    def _asked(self, frame: Frame) -> _Pending | None:
        """The call that a frame belongs to; None where nobody waits for it any more."""
        number = frame.get("id")
        pending = self._pending.get(number) if isinstance(number, int) else None
        return None if pending is None or pending.answer.done() else pending


def _sentence(text: object) -> str:
    """What a probe says to a person, fit for a terminal."""
    return printable(str(text))[:4000]
