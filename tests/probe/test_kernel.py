"""The kernel log: which lines are passed on, with which time."""

import os
import time
from pathlib import Path

import pytest

from orchestrator.probe.kernel import DEVICE, parse_record
from tests.probe.driver import Driver


@pytest.mark.parametrize(
    ("record", "parsed"),
    [
        (
            "4,1203,5501234567,-;NVRM: Xid (PCI:0000:00:06): 79, GPU has fallen off the bus.\n",
            (5501.234567, "NVRM: Xid (PCI:0000:00:06): 79, GPU has fallen off the bus."),
        ),
        (
            "3,9,1000000,c,caller=T12;a; b\n SUBSYSTEM=pci\n DEVICE=+pci:0000:00:06.0\n",
            (1.0, "a; b"),
        ),
        ("no record", None),
        ("4,x,y;text", None),
        ("", None),
    ],
)
def test_a_record_is_taken_apart(record: str, parsed: tuple[float, str] | None):
    """Priority, number and flags go; so does the dictionary behind the text."""
    assert parse_record(record) == parsed


def test_a_line_of_interest_is_sent_and_others_are_not(probe: Driver):
    """Lines from the time asked for on, written before and after the call."""
    if not os.access(DEVICE, os.W_OK):
        if os.environ.get("CI"):
            pytest.fail(f"CI must be able to write to {DEVICE}")
        pytest.skip(f"{DEVICE} cannot be written here (not root)")
    token = f"orch test {os.urandom(6).hex()}"
    begun = time.time()
    Path(DEVICE).write_text(f"{token}: NVRM before the call\n")
    probe.call("kernel", since=begun - 1.0)
    Path(DEVICE).write_text(f"{token}: nothing that concerns a run\n")
    Path(DEVICE).write_text(f"{token}: NVRM after the call\n")
    after = probe.until(lambda f: f["kind"] == "kernel" and f"{token}: NVRM after" in f["line"])
    ours = [f["line"] for f in probe.frames if f["kind"] == "kernel" and token in f["line"]]
    assert [line.removeprefix(f"{token}: ") for line in ours] == [
        "NVRM before the call",
        "NVRM after the call",
    ]
    assert begun - 2.0 < after["t"] < time.time() + 2.0
