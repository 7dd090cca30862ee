"""A host behind a jump is met by its key as any other is: the way there vouches for nobody."""

from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.core.errors import HostKeyRefused
from orchestrator.transport.pool import Pool
from tests.lab.lab import Lab
from tests.transport.test_ssh import agent, container, host_of, pool, refusal

__all__ = ["agent", "pool"]

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("lab-ssh")]


async def test_a_host_behind_a_jump_is_not_trusted_for_the_jumps_sake(
    lab: Lab, pool: Pool, agent: Path
) -> None:
    """The jump's key is known, its own is not: the sentence names it, and nothing is run there."""
    jump = f"root@{lab.host.address}:{lab.host.port}"
    host = replace(host_of(lab), hostname="localhost", proxy_jump=jump)
    error = await refusal(pool, container(host))
    assert isinstance(error, HostKeyRefused)
    assert f"localhost:{lab.host.port}" in str(error)
