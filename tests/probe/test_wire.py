"""The probe's end of the pipes: bytes behind a frame, and the buffers in which they come."""

import json
import os
import selectors
from collections.abc import Iterator

import pytest

from orchestrator.probe.frames import MAX_FRAME_BYTES, Frame
from orchestrator.probe.wire import LINE_BYTES, Wire


class End:
    """A wire whose input this test writes."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        self._out = os.open(os.devnull, os.O_WRONLY)
        self._selector = selectors.DefaultSelector()
        self.frames: list[Frame] = []
        self.wire = Wire(self._selector, self._read, self._out, self.frames.append, self._noise)

    @staticmethod
    def _noise(exc: Exception) -> None:
        raise exc

    def comes(self, content: bytes) -> Frame:
        """The call that comes with these bytes behind it, written in parts that a pipe takes."""
        line = b'{"kind":"call","id":1,"op":"x","args":{},"raw":%d}\n' % len(content)
        before, left = len(self.frames), line + content
        while left or len(self.frames) == before:
            left = left[os.write(self._write, left[:4096]) :]
            for ready, _ in self._selector.select(0):
                ready.data()
        return self.frames[-1]

    def close(self) -> None:
        """Let go of all descriptors."""
        self._selector.close()
        for fd in (self._read, self._write, self._out):
            os.close(fd)


@pytest.fixture
def end() -> Iterator[End]:
    """An end of this test."""
    made = End()
    yield made
    made.close()


def test_a_buffer_that_was_given_back_serves_the_next_bytes(end: End) -> None:
    """The same buffer holds what came last; one that is still in use is left alone."""
    size = 3 * LINE_BYTES
    first, second = end.comes(b"a" * size), end.comes(b"b" * size)
    held, kept = first["args"]["data"], second["args"]["data"]
    end.wire.take_back(first)
    third = end.comes(b"c" * size)["args"]["data"]
    assert third is held
    assert third == b"c" * size
    assert kept == b"b" * size


def test_no_buffer_is_kept_at_rest(end: End) -> None:
    """After a rest the next bytes get a buffer of their own, and other sizes always do."""
    first = end.comes(b"a" * LINE_BYTES)
    held = first["args"]["data"]
    end.wire.take_back(first)
    end.wire.rest()
    second = end.comes(b"b" * LINE_BYTES)
    assert second["args"]["data"] is not held
    end.wire.take_back(second)
    assert end.comes(b"c" * 10)["args"]["data"] == b"c" * 10


@pytest.mark.parametrize("args", [None, [], "text", {}, {"data": "text"}])
def test_a_frame_without_bytes_gives_nothing_back(end: End, args: object) -> None:
    """Whatever the arguments of a call are, its end neither fails nor spoils what comes next."""
    end.wire.take_back({"kind": "call", "id": 1, "op": "x", "args": args})
    assert end.comes(b"a" * LINE_BYTES)["args"]["data"] == b"a" * LINE_BYTES


def test_an_answer_that_is_too_large_is_an_error_of_its_call() -> None:
    """The daemon would drop the link over it, and all else that is watched there."""
    there, here = os.pipe()
    inward, outward = os.pipe()
    with selectors.DefaultSelector() as selector:
        wire = Wire(selector, there, outward, lambda _frame: None, End._noise)
        wire.send({"kind": "result", "id": 7, "value": {"text": "x" * MAX_FRAME_BYTES}})
        wire.flush()
        came = json.loads(os.read(inward, MAX_FRAME_BYTES))
    assert (came["kind"], came["id"]) == ("result", 7)
    assert came["error"]["message"] == "the result to say is larger than 8 MiB."
    for fd in (there, here, inward, outward):
        os.close(fd)
