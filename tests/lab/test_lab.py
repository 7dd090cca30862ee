"""The lab itself: it is real where it says so, and nothing of it stays behind."""

from __future__ import annotations

import pytest

from tests.lab.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("lab")]


def test_pct_exec_reaches_the_container_through_ssh(lab: Lab) -> None:
    """A command through the real ssh client and `pct exec` runs in the container's namespaces."""
    done = lab.host.ssh("pct exec 200 -- hostname")
    assert (done.returncode, done.stdout) == (0, "ct200\n")
