"""Values of secrets and sinks that change while a daemon lives: the newest word is taken."""

from dataclasses import replace
from pathlib import Path

from tests.acceptance.conftest import MakeOrch, local_job
from tests.conftest import XdgFolders
from tests.lab.receiver import Receiver

TELL = """sh -c 'printf %s "$HF_TOKEN_X" | md5sum; echo "$HF_TOKEN_X"'"""
REPLACED = "HF_TOKEN_X: taken from this shell, it was another value before"
FIRST, SECOND = "the-first-value", "a-second-value"


def test_a_secret_that_is_exported_anew_is_taken_and_said_without_its_value(
    make_orch: MakeOrch, short_folder: Path, xdg: XdgFolders
) -> None:
    """A living daemon takes it, over an earlier export and over the file; an edit counts again."""
    orch = make_orch(local_job(short_folder, TELL, "    secrets: [HF_TOKEN_X]\n"))

    def told(value: str | None) -> tuple[str, str]:
        env = {**orch.env, **({} if value is None else {"HF_TOKEN_X": value})}
        done = replace(orch, env=env)("run")
        assert value is None or value not in done.stdout + done.stderr
        said = next(line for line in done.stdout.splitlines() if line.endswith("  -"))
        return said.split()[0], done.stderr

    first, quiet = told(FIRST)
    second, loud = told(SECOND)
    assert first != second
    assert REPLACED not in quiet
    assert REPLACED in loud
    assert told(None)[0] == second
    file = xdg.config / "orch" / "env"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch(mode=0o600)
    file.write_text(f"HF_TOKEN_X={FIRST}\n")
    assert told(None)[0] == first
    taken, loud = told(SECOND)
    assert taken == second
    assert REPLACED in loud


def test_an_address_that_was_wrong_is_replaced_by_the_next_command(
    make_orch: MakeOrch, short_folder: Path, receiver: Receiver
) -> None:
    """No daemon is stopped for it."""
    orch = make_orch(local_job(short_folder, "echo done"))
    wrong = replace(orch, env={**orch.env, "ORCH_WEBHOOK_URL": "http://127.0.0.1:9/nobody"})
    assert "ops" in wrong("alert", "test", check=1).stdout
    mended = orch("alert", "test")
    assert "ORCH_WEBHOOK_URL: taken from this shell" in mended.stderr
    receiver.wait_for()


def test_a_file_of_values_that_is_not_taken_is_named(
    make_orch: MakeOrch, short_folder: Path, xdg: XdgFolders
) -> None:
    """Its mode, its real path and the remedy; once mended it counts at once."""
    orch = make_orch(local_job(short_folder, "echo done", "    secrets: [HF_TOKEN_X]\n"))
    file = xdg.config / "orch" / "env"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("HF_TOKEN_X=some-value-or-other\nnonsense\n")
    file.chmod(0o644)
    refused = orch("run", check=2).stderr
    assert "not read, since others may read it (mode 0644): chmod 600" in refused
    assert "chmod 600" in orch("daemon", "status").stdout
    assert "chmod 600" in orch("doctor", check=3).stdout
    file.chmod(0o600)
    orch("run")
    assert "env:2: is no NAME=value" in orch("daemon", "status").stdout
