"""One run over several targets: a node on each, joined by a real torchrun rendezvous."""

import sys
from pathlib import Path

import pytest

from tests.acceptance.conftest import MakeOrch, Orch

SUM = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
x = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(x)
print(f"sum {x.item():.0f} over {dist.get_world_size()}", flush=True)
dist.barrier()
dist.destroy_process_group()
"""
SLEEP = "import time\nprint('waiting', flush=True)\ntime.sleep(600)\n"
TORCHRUN = (
    "python3 -m torch.distributed.run --nnodes $ORCH_NNODES --node-rank $ORCH_NODE_RANK "
    "--nproc-per-node 1 --rdzv-id $ORCH_GROUP --rdzv-backend c10d "
    "--rdzv-endpoint 127.0.0.1:{port} -m toy"
)


@pytest.fixture
def package(short_folder: Path) -> Path:
    """The package's folder, with nothing in it yet."""
    folder = short_folder / "toy"
    folder.mkdir()
    return folder


@pytest.fixture
def orch(make_orch: MakeOrch, short_folder: Path, package: Path, free_port: int) -> Orch:
    """A job of two targets: this machine twice, with a tmux server each."""
    return make_orch(f"""
version: 1
hosts:
  here: {{transport: local}}
targets:
  a: {{host: here, python: {sys.executable}}}
  b: {{host: here, python: {sys.executable}, tmux_socket: b}}
jobs:
  pair:
    targets: [a, b]
    package: {package}
    workdir: {short_folder}/w
    command: {TORCHRUN.format(port=free_port)}
""")


def test_nodes_meet_and_finish(orch: Orch, package: Path) -> None:
    """Each target gets a node; together they sum over both, and node 0 is what the job means."""
    (package / "__main__.py").write_text(SUM)
    said = orch("run", timeout_s=120).stdout
    assert "node 0: pair-2 on a" in said
    assert "node 1: pair-1 on b" in said
    assert "sum 3 over 2" in said
    orch("wait", "pair-1", timeout_s=60)
    assert "sum 3 over 2" in orch("logs", "pair-1").stdout
    runs = [orch.json("show", words) for words in ("pair", "pair-1")]
    assert [(one["id"], one["target"], one["node"]) for one in runs] == [
        ("pair-2", "a", 0),
        ("pair-1", "b", 1),
    ]
    assert runs[0]["group"] == runs[1]["group"] is not None


def test_stop_ends_every_node(orch: Orch, package: Path) -> None:
    """Whoever stops one node stops the run, wherever it is."""
    (package / "__main__.py").write_text(SLEEP)
    orch("run", "--detach")
    orch.until(lambda: "waiting" in orch("logs", "pair-1", check=None).stdout)
    said = orch("stop", "pair").stdout
    assert "run 1 stopped" in said
    assert "run 2 stopped" in said
    assert {one["state"] for one in orch.json("ps", "-a")["runs"]} == {"stopped"}
    assert "had ended already" in orch("stop", "pair-1").stdout
