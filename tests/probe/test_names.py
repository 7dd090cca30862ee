"""What the probe says again because it is shipped alone equals what the daemon says."""

import ast
import sys
from pathlib import Path

import pytest

import orchestrator.probe
from orchestrator.core import contract
from orchestrator.core.parse import nvidia_smi
from orchestrator.probe import gpus, names, smi

PROBE = Path(orchestrator.probe.__file__).parent


def test_the_files_of_an_attempt_have_one_name() -> None:
    """Both sides of the link mean the same files."""
    ours = (names.LOG_FILE, names.EXIT_FILE, names.ATTEMPT_FILE)
    assert ours == (contract.LOG_FILE, contract.EXIT_FILE, contract.ATTEMPT_FILE)


def test_nvidia_smi_is_asked_the_same_question() -> None:
    """Without the probe a sample has fewer columns, and the same ones first."""
    columns = tuple(nvidia_smi.QUERY.split(","))
    assert smi.COLUMNS[: len(columns)] == columns
    assert smi.RESERVE_APART == nvidia_smi.RESERVE_APART
    assert (gpus.IDLE_BYTES, gpus.RESERVE_BYTES) == (
        nvidia_smi.IDLE_BYTES,
        nvidia_smi.RESERVE_BYTES,
    )


@pytest.mark.parametrize("path", sorted(PROBE.glob("*.py")), ids=lambda path: path.name)
def test_a_module_of_the_probe_needs_nothing_that_is_not_shipped(path: Path) -> None:
    """It imports the standard library, its siblings, libtmux and pynvml; and parses as 3.10."""
    tree = ast.parse(path.read_text(), feature_version=(3, 10))
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=aliases):
                modules = [alias.name for alias in aliases]
            case ast.ImportFrom(level=0, module=str(module)):
                modules = [module]
            case _:
                continue
        roots = {module.split(".")[0] for module in modules}
        assert roots <= sys.stdlib_module_names | {"libtmux", "pynvml"}
