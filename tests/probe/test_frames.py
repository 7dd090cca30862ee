"""The wire format is pinned: every kind of frame, and what a probe really sends of each."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.probe import frames
from orchestrator.probe.frames import BadFrame, decode, encode, pack, unpack
from tests.probe.driver import Driver, Run

GOLDEN = Path(__file__).with_name("frames.golden.jsonl").read_bytes().splitlines(keepends=True)
FRAMES = [decode(line) for line in GOLDEN]
KINDS = {frame["kind"]: frame for frame in FRAMES if frame.get("id") != 2}
"""One of each; the error of a call, id 2, is looked at on its own."""


@pytest.mark.parametrize("line", GOLDEN, ids=lambda line: decode(line)["kind"])
def test_a_frame_is_written_as_it_was_read(line: bytes) -> None:
    """Changing how a frame looks on the wire changes this file."""
    assert encode(decode(line)) == line


def test_every_kind_of_frame_is_in_the_documentation_and_in_the_golden_file() -> None:
    """The table in frames.py and the golden file list the same kinds."""
    assert frames.__doc__ is not None
    tables = frames.__doc__.split("Probe to daemon\n")[1].split("Ops of a call")[0]
    rows = (line for line in tables.splitlines() if re.match(r" {4}\w", line))
    assert {row.split()[0] for row in rows} == KINDS.keys()


@pytest.mark.tmux
def test_a_probe_sends_frames_of_the_golden_shape(probe: Driver, a_run: Run) -> None:
    """The keys of what is really sent are those of the golden file."""
    probe.call("launch", **a_run.spec("sh", "-c", "echo hi; sleep 0.2"))
    probe.call("watch", **a_run.watch())
    probe.call("gpus", interval_s=0.05)
    probe.kind("gpus")
    probe.call("gpus", interval_s=0)
    probe.kind("exit")
    probe.result("no_such_op")
    failed = [f for f in probe.frames if f["kind"] == "result" and "error" in f]
    sent = {frame["kind"]: frame for frame in probe.frames if frame not in failed}
    assert {"hello", "result", "bytes", "exit", "gpus"} <= sent.keys()
    for kind, frame in sent.items():
        assert frame.keys() == KINDS[kind].keys()
    assert sent["exit"]["record"].keys() == KINDS["exit"]["record"].keys()
    assert failed[0]["error"].keys() == {"type", "message", "remedy"}


@given(st.binary(max_size=300))
def test_any_bytes_are_a_frame_or_refused(line: bytes) -> None:
    """Noise on the wire raises BadFrame and nothing else."""
    try:
        frame = decode(line)
    except BadFrame:
        return
    assert isinstance(frame["kind"], str)


@given(
    st.dictionaries(
        st.text(max_size=5),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x, max_size=3)
        ),
        max_size=4,
    )
)
def test_whatever_is_encoded_is_one_line_and_comes_back(fields: dict[str, object]) -> None:
    """Newlines, surrogates and any other text inside never break the framing."""
    frame = {**fields, "kind": "result"}
    line = encode(frame)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert decode(line) == json.loads(json.dumps(frame))


@given(st.binary())
def test_bytes_come_back_as_they_were(chunk: bytes) -> None:
    """`data` holds any bytes."""
    assert unpack(pack(chunk)) == chunk


@given(st.text(max_size=40) | st.none() | st.integers())
def test_a_data_field_that_is_no_base64_is_refused(text: object) -> None:
    """A damaged frame is a BadFrame, not bytes that look right."""
    try:
        chunk = unpack(text)  # type: ignore[arg-type]
    except BadFrame:
        return
    assert isinstance(text, str)
    assert pack(chunk)[:2] == text[:2] or chunk == b""


@pytest.mark.parametrize(
    "line",
    [b"[" * 100_000, b"{}", b"[]", b'{"kind": 3}', b"null", b'{"kind": "x"', b"\xff\xfe", b""],
    ids=lambda line: repr(line[:12]),
)
def test_what_is_no_frame_is_refused(line: bytes) -> None:
    """Nesting that would exhaust the parser, other JSON, halves and noise."""
    with pytest.raises(BadFrame):
        decode(line)


def test_a_line_longer_than_a_frame_may_be_is_refused() -> None:
    """A flood without a newline is not parsed."""
    with pytest.raises(BadFrame, match="at most"):
        decode(b'{"kind":"x"}' + b" " * frames.MAX_FRAME_BYTES)
