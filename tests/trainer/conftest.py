"""Small configurations and one torch thread for the trainer's tests.

One thread, since two on cores shared with the other tests wait for each other.
"""

import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from trainer.config import Config
from trainer.configfile import load
from trainer.corpus import Answers, Document

ROOT = Path(__file__).parents[2]
TINY = ROOT / "trainer" / "configs" / "cpu-tiny.toml"

SMALL = (
    "total_steps=12",
    "log_every=5",
    "eval_every=6",
    "checkpoint.every=4",
    "checkpoint.keep=9",
    "corpus.samples=16",
    "corpus.eval_samples=2",
    "corpus.prompt_tokens=24",
    "corpus.answer_tokens=24",
    "corpus.row_tokens=96",
    "corpus.anchors=8",
    "corpus.row_anchors=16",
)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def small_config() -> Callable[..., Config]:
    """cpu-tiny, smaller still; further settings as `key=value`."""

    def make(*settings: str) -> Config:
        return load(TINY, SMALL + settings)

    return make


def made(answers: Answers, between: Callable[[], None]) -> list[Document]:
    """The documents of `answers`, made where they are not there yet."""
    if not answers.ready():
        answers.make(between)
    return answers.read()


@dataclasses.dataclass(frozen=True)
class Ended:
    """A finished command."""

    code: int
    out: str
    err: str


@pytest.fixture
def trainer(tmp_path: Path) -> Callable[..., Ended]:
    """Run `python -m trainer` on the small configuration in a folder of its own."""

    def run(*arguments: str, env: dict[str, str] | None = None, cwd: Path | None = None) -> Ended:
        settings = [word for setting in SMALL for word in ("--set", setting)]
        argv = [sys.executable, "-m", "trainer", "--config", str(TINY), *settings, *arguments]
        done = subprocess.run(
            argv,
            cwd=cwd or tmp_path,
            env=clean_env() | (env or {}),
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    return run


def clean_env() -> dict[str, str]:
    """This environment without the launcher's variables, and the project importable."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("ORCH_")}
    return kept | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
