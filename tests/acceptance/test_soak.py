"""Ten random faults in a row, of a seed: the stored log is the file, byte for byte."""

import pytest

from bench.observe.soak import STEPS, Soak
from tests.acceptance.conftest import MakeOrch, lab_job
from tests.lab.lab import Lab


@pytest.mark.lab
@pytest.mark.timeout(300)  # ten faults, each with a pause, on a machine that may be busy
def test_no_fault_loses_a_byte_or_ends_a_run(netns_lab: Lab, make_orch: MakeOrch) -> None:
    """kill -9 of daemon, probe, tmux and sshd, a cut cable, a stopped container."""
    orch = make_orch(lab_job(netns_lab, STEPS))
    found = Soak(netns_lab, orch, seed=7).run(10)
    assert sum(found["faults"].values()) == 10
    assert found["bytes"] > 0
