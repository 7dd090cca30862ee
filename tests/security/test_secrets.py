"""A secret is in the run's environment, and nowhere else that stays."""

import base64
import json
import os
import re
import stat
import subprocess
import tarfile
import threading
from functools import partial
from pathlib import Path
from urllib.parse import quote

import pytest
import zstandard

from orchestrator.probe.launch import _make_fifo
from orchestrator.probe.spec import read_spec
from tests.acceptance.conftest import MakeOrch, local_job
from tests.lab.receiver import Receiver

SECRET = "s3cret-value-of-a-test"
ODD_SECRET = 's3cret-"v"/%of&a-test'


@pytest.fixture
def nursery() -> None:
    """Command lines and memory of programs are searched: each command is a Python that starts."""


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


def test_the_fifo_of_a_launch_is_for_its_user_alone(tmp_path: Path) -> None:
    """Secrets pass through it: whatever the user's umask lets others do, they cannot open it."""
    before = os.umask(0)
    try:
        _make_fifo(str(tmp_path))
    finally:
        os.umask(before)
    (made,) = tmp_path.iterdir()
    assert stat.S_ISFIFO(made.stat().st_mode)
    assert stat.S_IMODE(made.stat().st_mode) == 0o600


def test_a_launch_is_read_once(tmp_path: Path) -> None:
    """Nothing of it is left behind its reader, and nobody else finds where it went through."""
    _make_fifo(str(tmp_path))
    (path,) = tmp_path.iterdir()
    writing = threading.Thread(target=path.write_text, args=(json.dumps({"env": SECRET}),))
    writing.start()
    assert read_spec(str(path), 30.0) == {"env": SECRET}
    writing.join()
    assert not [*tmp_path.iterdir()]


PRINTS_IT = """
import base64, json, os, sys, time
from urllib.parse import quote
value = os.environ["MY_TOKEN"]
coded = base64.b64encode(b"user:" + value.encode()).decode()
with open(os.environ["ORCH_RUN_DIR"] + "/metrics.jsonl", "a") as metrics:
    metrics.write(json.dumps({"t": time.time(), "step": 1, "note": value}) + "\\n")
print(value, repr(value), json.dumps([value]), json.dumps(json.dumps([value])))
print("https://me:" + quote(value, safe="") + "@host/x", "Authorization: Basic", coded)
for before in (b"", b"x", b"xy"):
    print(base64.b64encode(before + value.encode() + b"..").decode())
print(value.encode().hex(), value[:7] + "\\x1b[31m" + value[7:12] + "\\x1b[0m" + value[12:])
print(value[:10] + "\\n" + value[10:], flush=True)
for part in (value[:11], value[11:] + "\\n"):
    sys.stdout.write(part)
    sys.stdout.flush()
    time.sleep(0.7)
raise RuntimeError("no login for " + value + " by " + json.dumps(value) + " or " + coded)
"""


def test_a_secret_that_is_printed_is_shown_sent_and_kept_in_no_form(
    make_orch: MakeOrch, short_folder: Path, receiver: Receiver
) -> None:
    """Logs, verdicts, events, alerts, archive, state; by a person's reason and name as well."""
    (short_folder / "prints.py").write_text(PRINTS_IT)
    job = local_job(short_folder, f"python3 {short_folder}/prints.py", "    secrets: [MY_TOKEN]\n")
    orch = make_orch(job)
    orch.env["MY_TOKEN"] = ODD_SECRET
    orch("run", "-m", f"with {ODD_SECRET} at last", "--", f"--login={ODD_SECRET}", check=None)
    orch("silence", "add", "job=simulation", "--for", "1h", "-m", f"because of {ODD_SECRET}")
    receiver.wait_for(1)
    shown = [
        orch(*words, check=None).stdout
        for words in (
            ("logs", "@1"),
            ("show", "@1"),
            ("show", "@1", "--json"),
            ("explain", "@1"),
            ("status", "--json"),
            ("runs", "--json"),
            ("silence", "ls"),
            ("timeline", "@1"),
            ("daemon", "status", "--json"),
        )
    ]
    assert "no login for ****" in shown[0]
    said = orch.json("bundle", "@1")
    with tarfile.open(orch.folder / said["path"]) as archive:
        files = [archive.extractfile(one) for one in archive.getmembers()]
        shown += [file.read().decode() for file in files if file is not None]
    shown += [request.body.decode() for request in receiver.received]
    state = Path(orch.env["XDG_STATE_HOME"])
    logs = [path for path in state.rglob("*.log*") if path.is_file()]
    shown += [path.read_text("utf-8", "replace") for path in logs]
    for folder, printed in (("logs", "no login for"), ("metrics", '"step": 1')):
        kept = orch.until(partial(segments_of, state, folder))
        assert printed in "".join(map(unpacked, kept))
    shown += map(unpacked, state.rglob("*.zst"))
    for text in shown:
        assert not shows(text, ODD_SECRET), text


def segments_of(state: Path, folder: str) -> list[Path]:
    """The closed segments of all logs in a folder of each state folder."""
    return sorted(state.glob(f"orch/*/{folder}/**/*.zst"))


def unpacked(segment: Path) -> str:
    """What a closed segment of a log holds."""
    with segment.open("rb") as packed:
        whole: bytes = zstandard.ZstdDecompressor().stream_reader(packed).read()
    return whole.decode("utf-8", "replace")


def shows(text: str, value: str) -> list[str]:
    """The forms of a value of which a good piece stands in a text."""
    plain = re.sub(r"\x1b\[[0-9;]*m|\\u001b\[[0-9;]*m|\\r|\\n|\s", "", text)
    pieces = {value[:7], value[-7:], value.encode().hex()[4:24], quote(value, safe="")[-9:]}
    for before in (b"", b"x", b"xy", b"user:"):
        pieces.add(base64.b64encode(before + value.encode())[8:20].decode())
    return [piece for piece in pieces if piece in text or piece in plain]


def test_what_was_printed_before_it_was_known_as_a_secret_leaves_covered(
    make_orch: MakeOrch, short_folder: Path, receiver: Receiver
) -> None:
    """It is stored as it was; documents, logs, streams and the alert that waited do not show it."""
    (short_folder / "prints.py").write_text(f"raise RuntimeError('no login for {SECRET}')\n")
    job = local_job(short_folder, f"python3 {short_folder}/prints.py")
    orch = make_orch(job)
    address = orch.env.pop("ORCH_WEBHOOK_URL")
    orch("run", check=100)
    assert SECRET in orch("logs", "@1").stdout
    known = local_job(
        short_folder, f"python3 {short_folder}/prints.py", "    secrets: [MY_TOKEN]\n"
    )
    (orch.folder / "inventory.yaml").write_text(known)
    orch.env["MY_TOKEN"] = SECRET
    orch.until(lambda: SECRET not in orch("logs", "@1").stdout)
    for words in (
        ("logs", "@1", "--raw"),
        ("logs", "@1", "-f"),
        ("logs", "@1", "--grep", "login"),
        ("show", "@1", "--json"),
        ("explain", "@1"),
        ("incidents", "--json"),
        ("status", "--json"),
    ):
        said = orch(*words, check=None).stdout
        assert said.strip(), words
        assert SECRET not in said, words
    orch.env["ORCH_WEBHOOK_URL"] = address
    orch("status")
    (alert,) = receiver.wait_for()
    assert "no login for" in alert.body.decode()
    assert SECRET not in alert.body.decode()
