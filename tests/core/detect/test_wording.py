"""An end without an exception is not told as one, and two different ones are not the same."""

import pytest

from orchestrator.core.detect.engine import Engine
from orchestrator.core.findings import Verdict
from orchestrator.core.model import ExitRecord
from orchestrator.core.parse.kernel_log import KernelEvent, KernelEventKind


def verdict(text: bytes, code: int | None, signal: int | None = None) -> Verdict:
    """The verdict on a log and how its program ended."""
    engine = Engine()
    engine.feed(text)
    record = ExitRecord(code=code, signal=signal, started_at=0.0, ended_at=1.0)
    return engine.close(record)


@pytest.mark.parametrize(
    ("text", "code", "signal", "title"),
    [
        (b"sh: 1: pyhton3: not found\n", 127, None, "A command was not found (exit code 127)"),
        (
            b"train: error: unrecognized arguments: --x\n",
            2,
            None,
            "The program gave up with a message",
        ),
        (b"python3: can't open file 'a.py'\n", 2, None, "The program file was not found"),
        (
            b"/venv/bin/python: can't open file '/srv/a.py': [Errno 2] No such file or directory\n",
            2,
            None,
            "The program file was not found",
        ),
        (
            b"/usr/bin/python3: can't find '__main__' module in '/srv'\n",
            1,
            None,
            "The program has no __main__.py",
        ),
        (b"step 1\n", 7, None, "The program ended with exit code 7 and printed no reason"),
        (b"step 1\n", None, 1, "The program ended by signal 1 and printed no reason"),
    ],
)
def test_what_was_no_exception_is_not_called_one(
    text: bytes, code: int | None, signal: int | None, title: str
) -> None:
    """The title says what is known: a command not found, a message, a code or a signal alone."""
    found = verdict(text, code, signal)
    assert found.title == title
    assert found.crash
    assert "exception" not in found.title


def test_two_commands_that_are_not_found_are_two_failures() -> None:
    """What the shell could not find is part of the fingerprint."""
    one = verdict(b"sh: 1: pyhton3: not found\n", 127)
    other = verdict(b"sh: 1: cd: not found\n", 127)
    assert one.fingerprint != other.fingerprint


TOLD = "container 200 reached its memory limit of 64 GiB; victim python3 (PID inside 4711)"
WORKER = (
    b"Traceback (most recent call last):\n"
    b'  File "/srv/train.py", line 7, in <module>\n'
    b"    main()\n"
    b"RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed.\n"
)


@pytest.mark.parametrize(
    ("text", "code", "signal"),
    [(b"step 1\n", None, 9), (b"step 1\nKilled\n", 137, None), (WORKER, 1, None)],
    ids=["in silence", "a bare Killed", "a worker of it"],
)
def test_what_the_kernel_said_is_the_cause(
    text: bytes, code: int | None, signal: int | None
) -> None:
    """An OOM kill is told as container, limit and victim; nobody is sent to look for it."""
    engine = Engine()
    engine.feed(text)
    record = ExitRecord(code=code, signal=signal, started_at=0.0, ended_at=1.0)
    event = KernelEvent(kind=KernelEventKind.OOM_KILL, text=TOLD, at=1.0)
    found = engine.close(record, kernel=[event])
    assert (found.signature, found.certainty.value) == ("host_oom", "certain")
    assert found.cause == f"The kernel's word: {TOLD}."
    assert TOLD in found.evidence
    assert not any("oom-kill" in step or "kill -9" in step for step in found.next_steps)
