"""The kernel log: which lines are passed on, with which time."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from orchestrator.probe.kernel import parse_record
from orchestrator.probe.names import KERNEL_LOG
from tests.probe.driver import Driver


@pytest.mark.parametrize(
    ("record", "parsed"),
    [
        (
            "4,1203,5501234567,-;NVRM: Xid (PCI:0000:00:06): 79, GPU has fallen off the bus.\n",
            (1203, 5501.234567, "NVRM: Xid (PCI:0000:00:06): 79, GPU has fallen off the bus."),
        ),
        (
            "3,9,1000000,c,caller=T12;a; b\n SUBSYSTEM=pci\n DEVICE=+pci:0000:00:06.0\n",
            (9, 1.0, "a; b"),
        ),
        ("no record", None),
        ("4,x,y;text", None),
        ("", None),
    ],
)
def test_a_record_is_taken_apart(record: str, parsed: tuple[int, float, str] | None) -> None:
    """Priority and flags go; so does the dictionary behind the text."""
    assert parse_record(record) == parsed


@pytest.fixture
def kernel_log() -> Path:
    """A kernel log that a test can write to."""
    if not os.access(KERNEL_LOG, os.W_OK):
        if os.environ.get("CI"):
            pytest.fail(f"CI must be able to write to {KERNEL_LOG}")
        pytest.skip(f"{KERNEL_LOG} cannot be written here (not root)")
    return Path(KERNEL_LOG)


def test_a_line_of_interest_is_sent_and_others_are_not(probe: Driver, kernel_log: Path) -> None:
    """Lines from the time asked for on, written before and after the call."""
    token = f"orch test {os.urandom(6).hex()}"
    begun = time.time()
    kernel_log.write_text(f"{token}: NVRM before the call\n")
    probe.call("kernel", since=begun - 1.0)
    kernel_log.write_text(f"{token}: nothing that concerns a run\n")
    kernel_log.write_text(f"{token}: NVRM after the call\n")
    after = probe.until(lambda f: f["kind"] == "kernel" and f"{token}: NVRM after" in f["line"])
    ours = [f["line"] for f in probe.frames if f["kind"] == "kernel" and token in f["line"]]
    assert [line.removeprefix(f"{token}: ") for line in ours] == [
        "NVRM before the call",
        "NVRM after the call",
    ]
    assert begun - 2.0 < after["t"] < time.time() + 2.0


def test_lines_behind_a_known_one_are_asked_for_at_once(probe: Driver, kernel_log: Path) -> None:
    """What the kernel has said up to now, without what was told before; a PID is looked up."""
    token = f"orch test {os.urandom(6).hex()}"
    begun = time.time()
    kernel_log.write_text(f"{token}: NVRM one\n")
    kernel_log.write_text(f"{token}: NVRM two, pid={os.getpid()}\n")
    lines = [one for one in said(probe, begun) if token in one["line"]]
    assert [one["line"].split(": ")[1].split(",")[0] for one in lines] == ["NVRM one", "NVRM two"]
    assert lines[0]["seq"] < lines[1]["seq"]
    # Our PID is in no container: it has no other inside.
    assert lines[1]["container_pid"] is None
    later = [one for one in said(probe, begun, after=lines[0]["seq"]) if token in one["line"]]
    assert later == [{**lines[1], "t": later[0]["t"]}]


def said(probe: Driver, begun: float, **more: int) -> list[dict[str, Any]]:
    """Lines of the kernel since a test began."""
    lines: list[dict[str, Any]] = probe.call("kernel_lines", since=begun - 1.0, **more)["lines"]
    return lines
