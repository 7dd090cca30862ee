"""A secret is in the run's environment, and nowhere else that stays."""

import subprocess
from pathlib import Path

from tests.acceptance.conftest import MakeOrch, local_job

SECRET = "s3cret-value-of-a-test"


def test_secret_stays_in_memory(make_orch: MakeOrch, short_folder: Path) -> None:
    """The program has it; the state folder, the run's folder, tmux and argv do not."""
    text = local_job(
        short_folder,
        'python3 -c \'import os, time; print(len(os.environ["MY_TOKEN"]), flush=True); '
        "time.sleep(60)'",
        "    secrets: [MY_TOKEN]\n",
    )
    orch = make_orch(text)
    orch.env["MY_TOKEN"] = SECRET
    run = orch.json("run", "--detach")["run"]
    orch.until(lambda: str(len(SECRET)) in orch("logs", run).stdout)
    folders = (Path(orch.env["XDG_STATE_HOME"]), short_folder / "w")
    for file in (one for folder in folders for one in folder.rglob("*") if one.is_file()):
        assert SECRET.encode() not in file.read_bytes(), file
    shown = subprocess.run(
        ["tmux", "show-environment", "-t", "dflash"], capture_output=True, text=True, check=False
    )
    assert SECRET not in shown.stdout
    for words in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert SECRET.encode() not in words.read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
    orch("stop", run)
