"""What the link takes of a probe: all that ours makes, in whatever state a machine is."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from orchestrator.link.answers import wrong_answer
from orchestrator.link.shapes import (
    BITS,
    COUNT,
    NUMBER,
    READING,
    WHOLE,
    Kind,
    require_frame,
)
from orchestrator.probe import smi
from orchestrator.probe.frames import BadFrame, Frame, decode, encode
from orchestrator.probe.procfs import COMMAND_CHARS

TESTS = Path(__file__).parents[1]
GOLDEN = (TESTS / "probe/frames.golden.jsonl").read_bytes().splitlines(keepends=True)
CAPTURES = TESTS / "captures" / "nvidia_smi"
GOOD_RELEASE = {"digest": "a", "name": "p", "at": 1.0, "bytes": 1, "files": 1, "in_use": False}


def told(processes: int = 0, **extra: Any) -> Frame:
    """A round of one GPU with that many programs on it."""
    program = {"pid": 1234567, "command": "x" * COMMAND_CHARS, "run": "train-12", "pane": "%1"}
    sample = {"index": 0, "processes": [program] * processes, "extra": extra}
    return {"kind": "gpus", "t": 1.0, "source": "nvml", "samples": [sample], "error": None}


@pytest.mark.parametrize("line", GOLDEN, ids=lambda line: decode(line)["kind"])
def test_every_kind_of_frame_is_taken(line: bytes) -> None:
    """The frames that pin the wire format, of each kind."""
    require_frame(decode(line), len(line))


@pytest.mark.parametrize("capture", sorted(CAPTURES.glob("*.txt")), ids=lambda path: path.stem)
def test_what_real_drivers_say_is_taken(capture: Path) -> None:
    """Old cards, lost cards, cards that do not say, and no row at all."""
    samples = smi.parse(capture.read_text())
    assert wrong_answer("gpus", {"source": "nvidia-smi", "samples": samples}) is None


@pytest.mark.parametrize(
    "extra",
    [
        {"mig_devices": [{"index": 0, "uuid": "MIG-1", "instance": 3, "memory_used_bytes": 1}]},
        {"throttle_reasons": 2**64 - 1},
        {"ecc_corrected": 2**64 - 1, "nvlink_errors": {"replay": 2**64 - 1}},
    ],
    ids=lambda extra: next(iter(extra)),
)
def test_what_a_driver_may_say_is_taken(extra: dict[str, Any]) -> None:
    """The parts of a divided GPU, and counters and bits of 64 bits without a sign."""
    require_frame(told(**extra), 1000)


@pytest.mark.parametrize(
    "extra", [{"throttle_reasons": 2**64}, {"throttle_reasons": -1}, {"mig_devices": ["MIG-1"]}]
)
def test_what_no_driver_says_is_refused(extra: dict[str, Any]) -> None:
    """More bits than there are, and parts that are none."""
    with pytest.raises(BadFrame, match=next(iter(extra))):
        require_frame(told(**extra), 1000)


def test_many_programs_on_the_gpus_are_taken() -> None:
    """A thousand with the longest of commands; what is larger than any honest round is not."""
    line = encode(told(processes=1000))
    assert len(line) > 1024**2
    require_frame(decode(line), len(line))
    with pytest.raises(BadFrame, match="at most 2097152"):
        require_frame(told(), 2 * 1024**2 + 1)


def test_a_line_of_the_kernel_is_short() -> None:
    """Thousands of them are kept."""
    frame = {"kind": "kernel", "t": 1.0, "seq": 1, "line": "Xid"}
    require_frame(frame, len(json.dumps(frame)))
    with pytest.raises(BadFrame, match="at most 262144"):
        require_frame(frame, 256 * 1024 + 1)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"provenance": {"untracked": 3}}, "provenance.untracked"),
        ({"provenance": {"untracked": [3]}}, "provenance.untracked"),
        ({"provenance": {"commit": 7}}, "provenance.commit"),
        ({"provenance": {"dirty": "yes"}}, "provenance.dirty"),
        ({"in_use": None}, "in_use"),
    ],
)
def test_a_release_record_that_was_tampered_with_is_refused(
    change: dict[str, Any], said: str
) -> None:
    """It lies where the program can write: what is listed of it has the types that it had."""
    whole = {**GOOD_RELEASE, "provenance": {"commit": "c0ffee", "dirty": None, "untracked": ["a"]}}
    assert wrong_answer("release_list", {"current": "a", "releases": [whole]}) is None
    wrong = wrong_answer("release_list", {"current": "a", "releases": [whole, {**whole, **change}]})
    assert said in str(wrong)


@pytest.mark.parametrize("kind", [WHOLE, COUNT, NUMBER, BITS, READING], ids=lambda kind: kind.name)
@pytest.mark.parametrize("value", [True, "1", None, math.nan, math.inf, 2**64, -(2**64), [1]])
def test_what_is_no_number_is_none(kind: Kind, value: Any) -> None:
    """A truth is no number, nor is one that nothing can be counted with."""
    assert kind.fits(1)
    assert not kind.fits(value)


def test_what_nests_without_an_end_is_refused() -> None:
    """Read it can be, but neither kept, compared nor shown: each of these asks itself again."""
    deep: list[Any] = []
    for _ in range(200):
        deep = [deep]
    good, hostile = (decode(encode(told(of_tomorrow=one))) for one in ([[{"b": 1}]], deep))
    require_frame(good, 1000)
    assert "nests deeper" in str(wrong_answer("gpus", hostile))
    assert "is not a list" in str(wrong_answer("gpus", {**good, "samples": 3}))
    with pytest.raises(BadFrame, match="`samples` nests deeper than"):
        require_frame(hostile, 1000)
