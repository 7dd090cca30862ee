"""`orch rules test`: an inventory's own rules and the built-in ones, their samples and any log."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.core.detect.signatures import load
from tests.cli.conftest import Ran

Orch = Callable[..., Ran]
BUILT_IN = f"ok  {len({item.id for item in load()})} built-in signatures: "

RULES = """\
version: 1
rules:
  - name: reactor_scram
    pattern: 'reactor \\d+ scrammed'
    role: root
    positive: ["warming up\\nreactor 7 scrammed\\n"]
    negative: ["reactor warm", "no reactor scrammed"]
  - name: lost_wheel
    pattern: 'wheel fell off'
    positive: the wheel is fine
"""


def test_samples_of_own_and_built_in_rules_are_checked(project: Path, orch: Orch) -> None:
    """A rule that misses its own sample is named by file and line, and the exit code is 1."""
    (project / "inventory.yaml").write_text(RULES)
    ran = orch("rules", "test")
    assert ran.code == 1
    first, second, last = ran.out.splitlines()
    assert first == "ok  reactor_scram: 1 positive and 2 negative samples"
    assert second.endswith(
        "inventory.yaml:8: lost_wheel: positive sample 1 is not found: 'the wheel is fine'"
    )
    assert last.startswith(BUILT_IN)


def test_log_shows_what_matches_where(project: Path, orch: Orch) -> None:
    """Own rules and built-in ones are found in a file with their lines; a crash gives 3."""
    (project / "inventory.yaml").write_text(RULES.replace("the wheel is fine", "a wheel fell off"))
    log = project / "run.log"
    log.write_text(
        "step 1\nreactor 3 scrammed\nTraceback (most recent call last):\n"
        '  File "/srv/app/train.py", line 3, in <module>\n    main()\n'
        "torch.OutOfMemoryError: CUDA out of memory.\n"
    )
    ran = orch("rules", "test", str(log), "--json")
    assert ran.code == 3
    said = json.loads(ran.out)
    assert all(rule["ok"] for rule in said["rules"])
    found = said["files"][0]["matches"]
    assert [(one["line"], one["signature"], one["own"]) for one in found] == [
        (2, "reactor_scram", True),
        (3, "cuda_oom", False),
    ]


def test_no_inventory_tests_the_built_in_ones(
    tmp_path: Path, orch: Orch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an inventory the built-in signatures stand every sample of theirs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ORCH_CONFIG", raising=False)
    ran = orch("rules", "test")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(BUILT_IN)


def test_faults_of_rules_are_the_inventorys(project: Path, orch: Orch) -> None:
    """A rule that cannot be read is refused at the door, by its line and key."""
    (project / "inventory.yaml").write_text(
        "version: 1\nrules:\n  - name: a\n    pattern: '('\n  - name: b\n    pattrn: x\n"
        "  - name: c\n    pattern: x\n    until: '(.)\\1'\n"
    )
    ran = orch("rules", "test")
    assert ran.code == 2
    first, second, third, last = ran.err.splitlines()
    assert "inventory.yaml:4: rules[0].pattern: '(' is no regular expression" in first
    assert second.endswith(
        "inventory.yaml:6: rules[1].pattrn: is no key of a rule; did you mean pattern?"
    )
    assert "inventory.yaml:9: rules[2].until: '(.)\\\\1' refers to an earlier group" in third
    assert last == "orch: the inventory has 3 faults; nothing was touched"
