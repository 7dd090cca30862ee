"""`.ci/audit`: what is known against a package fails it; a registry that is away does not."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "audit"
FLAW = {"id": "PYSEC-2026-1", "fix_versions": ["2.0"]}


def audit(folder: Path, printed: str, code: int, complaint: str = "") -> tuple[int, str]:
    """What the script makes of a pip-audit that prints that."""
    (folder / "printed").write_text(printed)
    program = folder / "pip-audit"
    program.write_text(
        f"#!/bin/sh\ncat {folder}/printed\necho '{complaint}' >&2\nexit {code}\n", encoding="utf-8"
    )
    program.chmod(0o755)
    done = subprocess.run(
        [SCRIPT, program], capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout


def found(*flaws: Mapping[str, object]) -> str:
    """The JSON of pip-audit for one package."""
    return json.dumps({"dependencies": [{"name": "pkg", "version": "1.0", "vulns": list(flaws)}]})


def test_a_known_flaw_fails_and_is_named(tmp_path: Path) -> None:
    """Package, version, name of the flaw, and the version that mends it."""
    code, said = audit(tmp_path, found(FLAW), 1)
    assert code == 1
    assert "pkg 1.0: PYSEC-2026-1, mended in 2.0" in said


def test_nothing_known_is_said_with_the_count(tmp_path: Path) -> None:
    """So that an audit of nothing is not taken for a good one."""
    assert audit(tmp_path, found(), 0) == (0, "audit: 1 packages looked up, 0 flaws known\n")


@pytest.mark.parametrize("printed", ["", "no json", "{}", "[]"])
def test_a_registry_that_is_away_stops_nobody_and_is_said(tmp_path: Path, printed: str) -> None:
    """With the reason, as pip-audit gave it."""
    code, said = audit(tmp_path, printed, 1, "ConnectionError: no route")
    assert (code, said) == (0, "audit: skipped, nobody could be asked: ConnectionError: no route\n")


def test_a_registry_that_knows_nothing_is_no_clean_bill(tmp_path: Path) -> None:
    """A mirror without that part gives no package and no error: it is said, and how many."""
    unknown = {"name": "other", "skip_reason": "not found"}
    code, said = audit(tmp_path, json.dumps({"dependencies": [unknown, unknown]}), 0)
    assert code == 0
    assert said == "audit: skipped, the registry here tells nothing of any of 2 packages\n"
    both = {"dependencies": [*json.loads(found(FLAW))["dependencies"], unknown]}
    code, said = audit(tmp_path, json.dumps(both), 1)
    assert code == 1
    assert "tells nothing of 1: other\n" in said
    assert "1 packages looked up, 1 flaws known" in said


def test_ci_runs_it() -> None:
    """Both of the ways in which the project is checked."""
    root = SCRIPT.parents[1]
    assert ".ci/audit" in (root / ".ci" / "run").read_text()
    assert "run: .ci/audit" in (root / ".github" / "workflows" / "check.yml").read_text()
