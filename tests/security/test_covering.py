"""Which values are covered, and that what the daemon keeps of its own holds none of them."""

from dataclasses import replace
from pathlib import Path

import zstandard

from tests.acceptance.conftest import MakeOrch, Orch, local_job

SECRET, LATER = "s3cret-value-of-a-test", "an0ther-value-of-a-test"
TELLS_THE_LAST_ONE = """sh -c 'echo "before was $(cat {0})."; printf %s "$MY_TOKEN" > {0}'"""


def kept(orch: Orch) -> dict[Path, bytes]:
    """What every file of the state folder holds, unpacked."""
    found = {}
    for path in Path(orch.env["XDG_STATE_HOME"]).rglob("*"):
        if path.is_file() and path.suffix == ".zst":
            with path.open("rb") as packed:
                found[path] = zstandard.ZstdDecompressor().stream_reader(packed).read()
        elif path.is_file():
            found[path] = path.read_bytes()
    return found


def test_no_line_of_the_daemons_log_holds_a_secret(make_orch: MakeOrch, short_folder: Path) -> None:
    """From the first one on: a value's command that fails is named as it begins."""
    more = "    secrets: [MY_TOKEN, OTHER]\n"
    orch = make_orch(local_job(short_folder, "echo done", more))
    orch.env.update({"MY_TOKEN": SECRET, "OTHER_COMMAND": f"exit 3 # as {SECRET}"})
    orch("daemon", "start")
    assert "exit 3 # as ****" in orch.log()
    assert SECRET not in orch.log()


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
