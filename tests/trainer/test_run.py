"""Whole runs by the command line: the run contract, signals, resuming, standing alone."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.trainer.conftest import ROOT, SMALL, TINY, Ended, clean_env
from trainer import checkpoint

Trainer = Callable[..., Ended]

# Each of these starts interpreters that load torch: seconds alone, a minute on a busy machine.
pytestmark = pytest.mark.timeout(700)


def lines_of(folder: Path) -> list[dict[str, Any]]:
    """metrics.jsonl as objects."""
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_a_run_keeps_the_run_contract(trainer: Trainer, tmp_path: Path) -> None:
    """Each step has one JSON line with step and loss, and the terminal readable ones."""
    ended = trainer(env={"ORCH_RUN_DIR": str(tmp_path / "run")})
    assert ended.code == 0, ended.err
    lines = lines_of(tmp_path / "run")
    steps = [line for line in lines if "loss" in line]
    assert [line["step"] for line in steps] == list(range(1, 13))
    assert all(line["phase"] == "train" and line["loss"] > 0 for line in steps)
    assert {line["total_steps"] for line in lines} == {12}
    assert all(line["tokens_per_s"] > 0 and line["lr"] > 0 for line in steps)
    assert {line["phase"] for line in lines} == {"start", "data", "eval", "train", "checkpoint"}
    assert lines == sorted(lines, key=lambda line: float(line["t"]))
    assert re.search(
        r"step 5/12  loss \d+\.\d+  tok/s [\d,]+  phase train  acceptance \d", ended.out
    )
    assert ended.out.splitlines()[-1].startswith("finished: 12 steps in ")
    assert (tmp_path / "run" / "checkpoints" / "step-00000012" / "state.pt").is_file()


def test_features_from_files_train_as_those_made_live(trainer: Trainer, tmp_path: Path) -> None:
    """The files are made once, a second run reads them, and the losses are the live ones."""
    few = ("--set", "total_steps=4", "--set", "eval_every=2")
    files = ("--set", f"target.feature_files={tmp_path / 'features'}")
    ended, made = [], []
    for name, more in (("live", ()), ("first", files), ("second", files)):
        ended.append(trainer(*few, *more, env={"ORCH_RUN_DIR": str(tmp_path / name)}))
        assert ended[-1].code == 0, ended[-1].err
        found = sorted((tmp_path / "features").glob("*/*/*.pt"))
        made.append([(path, path.stat().st_mtime_ns) for path in found])
    assert len(made[1]) == 18
    assert made[1] == made[2]
    live, first, second = (
        [line["loss"] for line in lines_of(tmp_path / name) if "loss" in line]
        for name in ("live", "first", "second")
    )
    assert first == second
    assert first == pytest.approx(live, rel=1e-5)
    words = [end.out.splitlines()[-1].partition("acceptance")[2][:5] for end in ended]
    assert words[0] == words[1] == words[2]


def test_a_profile_is_written_where_it_is_asked_for(trainer: Trainer, tmp_path: Path) -> None:
    """`--profile` leaves a trace and a table of some steps beside the checkpoints."""
    ended = trainer("--profile", env={"ORCH_RUN_DIR": str(tmp_path / "run")})
    assert ended.code == 0, ended.err
    folder = tmp_path / "run" / "checkpoints"
    assert "aten::mm" in (folder / "profile-drafter-0.txt").read_text()
    assert json.loads((folder / "profile-drafter-0.json").read_text())["traceEvents"]
    assert f"profile of 3 steps: {folder / 'profile-drafter-0'}.json" in ended.out


def test_sigterm_saves_leaves_with_143_and_the_run_resumes_bit_for_bit(
    trainer: Trainer, tmp_path: Path
) -> None:
    """k steps, SIGTERM, and n - k steps after ORCH_ATTEMPT=2 are n steps, to the bit."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert trainer("--set", "total_steps=30", env={"ORCH_RUN_DIR": str(whole)}).code == 0
    settings = [
        w for s in (*SMALL, "total_steps=30", "checkpoint.every=1000") for w in ("--set", s)
    ]
    running = subprocess.Popen(
        [sys.executable, "-m", "trainer", "--config", str(TINY), *settings],
        env=clean_env() | {"ORCH_RUN_DIR": str(cut)}, cwd=tmp_path,
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_for(
        lambda: (
            (cut / "metrics.jsonl").is_file() and '"train"' in (cut / "metrics.jsonl").read_text()
        )
    )
    running.send_signal(signal.SIGTERM)
    out, _ = running.communicate(timeout=200)
    assert running.returncode == 143
    stopped = re.search(r"stopped by SIGTERM at step (\d+)/30; saved ", out)
    assert stopped is not None, out
    assert 0 < int(stopped[1]) < 30
    ended = trainer("--set", "total_steps=30", env={"ORCH_RUN_DIR": str(cut), "ORCH_ATTEMPT": "2"})
    assert ended.code == 0, ended.err
    assert f"at step {stopped[1]}" in ended.out
    first, _ = checkpoint.load(whole / "checkpoints" / "step-00000030")
    second, _ = checkpoint.load(cut / "checkpoints" / "step-00000030")
    assert_same(first, second)
    losses = [[line["loss"] for line in lines_of(f) if "loss" in line] for f in (whole, cut)]
    assert losses[0] == losses[1]


def assert_same(first: Any, second: Any) -> None:
    """Equal in every bit."""
    if isinstance(first, dict):
        assert first.keys() == second.keys()
        for key in first:
            assert_same(first[key], second[key])
    elif isinstance(first, list):
        for one, other in zip(first, second, strict=True):
            assert_same(one, other)
    elif isinstance(first, torch.Tensor):
        assert torch.equal(first, second)
    else:
        assert first == second


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until `condition` holds, at most 500 s."""
    deadline = time.monotonic() + 500
    while not condition():
        assert time.monotonic() < deadline, "waited 500 s in vain"
        time.sleep(0.02)


def test_a_start_over_checkpoints_is_refused_without_fresh(
    trainer: Trainer, tmp_path: Path
) -> None:
    """Step 0 into a folder that has checkpoints needs --fresh; --resume goes on in it."""
    place = ("--set", f"checkpoint_dir={tmp_path / 'kept'}", "--set", "total_steps=4")
    assert trainer(*place).code == 0
    refused = trainer(*place)
    assert refused.code == 2
    assert f"checkpoint_dir: {tmp_path / 'kept'} already holds checkpoints" in refused.err
    assert "step-00000004 at step 4" in trainer(*place, "--resume").out
    fresh = trainer(*place, "--fresh")
    assert fresh.code == 0
    assert "step 4/4" in fresh.out


def test_resume_without_a_checkpoint_is_refused(trainer: Trainer, tmp_path: Path) -> None:
    """--resume needs something to resume from; a second attempt just starts."""
    place = ("--set", f"checkpoint_dir={tmp_path / 'none'}", "--set", "total_steps=1")
    refused = trainer(*place, "--resume")
    assert refused.code == 2
    assert "none holds no valid checkpoint" in refused.err
    assert trainer(*place, env={"ORCH_ATTEMPT": "2"}).code == 0


def test_a_configuration_error_exits_2_with_one_sentence(trainer: Trainer) -> None:
    """The sentence goes to stderr, and no traceback."""
    ended = trainer("--set", "optim.lrr=1")
    assert ended.code == 2
    assert ended.err == (
        "error: --set optim.lrr=1: optim.lrr: unknown key; the nearest is optim.lr\n"
    )


def test_help_loads_no_torch() -> None:
    """`--help` answers without importing torch."""
    code = (
        "import sys\nfrom trainer.__main__ import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as end:\n"
        "    sys.exit(end.code or (3 if 'torch' in sys.modules else 0))"
    )
    done = subprocess.run([sys.executable, "-c", code], env=clean_env(), check=False, timeout=240)
    assert done.returncode == 0


def test_the_folder_stands_alone(tmp_path: Path) -> None:
    """A copy of trainer/ elsewhere runs with nothing of ours importable, without numpy."""
    shutil.copytree(ROOT / "trainer", tmp_path / "there" / "trainer")
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    for name in ("orchestrator", "tui", "numpy", "safetensors"):
        (blocked / f"{name}.py").write_text(f"raise ModuleNotFoundError('{name} is not here')\n")
    settings = [word for setting in (*SMALL, "total_steps=2") for word in ("--set", setting)]
    done = subprocess.run(
        [sys.executable, "-m", "trainer", "--config", "configs/cpu-tiny.toml", *settings],
        cwd=tmp_path / "there" / "trainer",
        env=clean_env() | {"PYTHONPATH": f"{tmp_path / 'there'}{os.pathsep}{blocked}"},
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "finished: 2 steps" in done.stdout
    assert list((tmp_path / "there" / "trainer" / "runs").glob("*/step-00000002"))
