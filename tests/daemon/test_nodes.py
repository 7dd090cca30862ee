"""What a run over several targets is told, which nobody else may set."""

import pytest

from orchestrator.core.errors import UsageError
from orchestrator.daemon.launching import RunRequest
from orchestrator.daemon.nodes import node_env, rank_of


@pytest.mark.parametrize("name", ["ORCH_NODE_RANK", "ORCH_NNODES", "ORCH_GROUP"])
def test_nobody_but_orch_says_which_node_a_run_is(name: str) -> None:
    """A run with a rank of its own was stored, and then neither it nor another could be shown."""
    with pytest.raises(UsageError, match=name):
        RunRequest.of({"env": {name: "x"}})


def test_a_rank_counts_within_a_group_only() -> None:
    """What a run was told when that was not refused yet breaks nothing."""
    assert rank_of({"ORCH_NODE_RANK": "x"}) == 0
    assert rank_of(node_env("abc", 2, 3)) == 2
    assert rank_of(node_env("abc", 0, 1)) == 0
