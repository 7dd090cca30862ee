"""Which values are covered, and that what the daemon keeps of its own holds none of them."""

import time
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard

from orchestrator.core.inventory.build import parse_inventory
from orchestrator.daemon.covering import Cover
from orchestrator.daemon.environment import Environment
from tests.acceptance.conftest import MakeOrch, Orch, local_job

SECRET, LATER = "s3cret-value-of-a-test", "an0ther-value-of-a-test"
TELLS_THE_LAST_ONE = """sh -c 'echo "before was $(cat {0})."; printf %s "$MY_TOKEN" > {0}'"""


def kept(orch: Orch) -> dict[Path, bytes]:
    """What every file of the state folder holds, unpacked; its daemon is ended first."""
    orch("daemon", "stop", check=None)  # it packs logs at any moment
    found = {}
    for path in Path(orch.env["XDG_STATE_HOME"]).rglob("*"):
        if path.is_file() and path.suffix == ".zst":
            with path.open("rb") as packed:
                found[path] = zstandard.ZstdDecompressor().stream_reader(packed).read()
        elif path.is_file():
            found[path] = path.read_bytes()
    return found


@pytest.mark.parametrize(
    ("env", "secret"),
    [
        ({"MY_TOKEN": SECRET}, SECRET),
        ({"MY_TOKEN": SECRET, "ORCH_STORE": f"postgresql://me:{LATER}@127.0.0.1:1/x"}, LATER),
    ],
    ids=["a job's", "of the database's address"],
)
def test_no_line_of_the_daemons_log_holds_a_secret(
    make_orch: MakeOrch, short_folder: Path, env: dict[str, str], secret: str
) -> None:
    """From the first one on: a value's command that fails is named as the daemon begins."""
    more = "    secrets: [MY_TOKEN, OTHER]\n"
    orch = make_orch(local_job(short_folder, "echo done", more))
    orch.env.update({**env, "OTHER_COMMAND": f"exit 3 # as {secret}"})
    said = orch("daemon", "start", check=int("ORCH_STORE" in env))
    assert "exit 3 # as ****" in orch.log()
    assert secret not in orch.log() + said.stdout + said.stderr


INVENTORY = b"""
version: 1
hosts: {here: {transport: local}}
targets: {local: {host: here}}
jobs: {dflash: {target: local, workdir: /w, command: "true", secrets: [A]}}
"""


@pytest.mark.parametrize(
    ("value", "said", "shown"),
    [
        ("s3cret-x", "it is s3cret-x", "it is ********"),
        ("Bearer s3cret-x", "it is s3cret-x", "it is ********"),
        ("https://me:pa%40ss-w@h/x", "with pa%40ss-w", "with *********"),
        ("https://me:pa%40ss-w@h/x", "with pa@ss-w", "with *******"),
        ("abc", "an abc of it", "an abc of it"),
        ("flas", "of dflash-1", "of dflash-1"),
    ],
    ids=["whole", "a word of it", "a password", "decoded", "too short", "a job's name"],
)
def test_what_is_covered_of_a_value(tmp_path: Path, value: str, said: str, shown: str) -> None:
    """It, each word of it and the password of an address; a name of the inventory is no secret."""
    inventory = parse_inventory(
        INVENTORY, path="i.yaml", folder="/", exists=lambda _: True, home="/root"
    )
    environment = Environment({"A": value}, tmp_path / "env", time.monotonic)
    assert Cover(environment, lambda: inventory).text(said) == shown


def test_a_word_of_ours_stays_though_a_value_is_written_so(tmp_path: Path) -> None:
    """A program reads an answer by it; whoever else says the value says it in a sentence."""
    inventory = parse_inventory(
        INVENTORY, path="i.yaml", folder="/", exists=lambda _: True, home="/root"
    )
    cover = Cover(Environment({"A": "failed"}, tmp_path / "e", time.monotonic), lambda: inventory)
    said = b'{"state":"failed","why":"failed there"}\n'
    assert cover.answer(said, is_json=True) == b'{"state":"failed","why":"****** there"}\n'


def test_a_persons_reason_is_stored_without_a_secret(
    make_orch: MakeOrch, short_folder: Path
) -> None:
    """Of a run and of a silence: no later reader of the state folder finds it there."""
    orch = make_orch(local_job(short_folder, "echo done", "    secrets: [MY_TOKEN]\n"))
    orch.env["MY_TOKEN"] = SECRET
    orch("run", "-m", f"with {SECRET} at last")
    orch("silence", "add", "job=dflash", "--for", "1h", "-m", f"because of {SECRET}")
    stored = kept(orch)
    for reason in (b"with ****", b"because of ****"):
        assert any(reason in content for content in stored.values())
    assert [path for path, content in stored.items() if SECRET.encode() in content] == []


def test_a_value_of_before_is_stored_by_no_later_run(
    make_orch: MakeOrch, short_folder: Path
) -> None:
    """A run that was given a newer one prints what an earlier run left behind: it is covered."""
    tells = TELLS_THE_LAST_ONE.format(short_folder / "left")
    orch = make_orch(local_job(short_folder, tells, "    secrets: [MY_TOKEN]\n"))
    for value in (SECRET, LATER):
        replace(orch, env={**orch.env, "MY_TOKEN": value})("run")
    stored = kept(orch)
    assert any(b"before was ****" in content for content in stored.values())
    assert [path for path, content in stored.items() if SECRET.encode() in content] == []
