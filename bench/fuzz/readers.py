"""Whatever reads what others wrote, each as a function of bytes that may only refuse in its words.

Owns the list. What a checked frame leads to is read here as well: a check that lets something
through on which its readers break is a find.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from orchestrator.clock import SystemClock
from orchestrator.core.adhoc import split_place
from orchestrator.core.detect.engine import Engine
from orchestrator.core.detect.signatures import load
from orchestrator.core.errors import OrchError
from orchestrator.core.inventory.build import parse_inventory
from orchestrator.core.parse import elastic, kernel_log, nvidia_smi, ssh_config, terminal, tmux
from orchestrator.core.parse.gpu_notes import notes
from orchestrator.core.parse.masking import covered
from orchestrator.core.parse.metrics import MetricsReader
from orchestrator.core.parse.nccl_ras import lags
from orchestrator.core.parse.secret_search import known
from orchestrator.core.parse.secrets import redact
from orchestrator.core.parse.survey import parse_survey
from orchestrator.core.parse.until import parse_until
from orchestrator.core.patterns import read_pattern
from orchestrator.daemon.asked import checked
from orchestrator.daemon.launching import RunRequest
from orchestrator.link.answers import wrong_answer
from orchestrator.link.feeds import Watch
from orchestrator.link.shapes import require_frame
from orchestrator.observe.follow import Follower
from orchestrator.observe.gpus import gpus_sampled
from orchestrator.probe import frames

SIGNATURES = load()
SECRETS = known(["s3cret-of-a-fuzzer", 'with "quotes" and %'])
CLOCK = SystemClock()
ROUTES = (
    *("deploy", "run", "repeat", "bisect", "adopt", "simulate", "stop", "prune", "rollback"),
    *("alert-test", "silence-add", "give-up", "end-process"),
)
OPS = ("launch", "end", "gpus", "dump", "preflight", "runs_known", "environment", "copy_tree")


class Reader(NamedTuple):
    """One reader, how often it gets an input, and what it may refuse with."""

    read: Callable[[bytes], object]
    share: float
    refuses: tuple[type[Exception], ...] = ()
    tree: str = ""
    """Documents of this kind are reshaped for it; else bytes are mutated."""


class _Nobody:
    async def acknowledge(self, watch: str, stream: str, offset: int) -> None:
        """Nothing."""

    async def unwatch(self, watch: str) -> None:
        """Nothing."""


def _inventory(text: bytes) -> None:
    parse_inventory(
        text, path="i.yaml", folder="/", exists=lambda _: True, home="/", check_rule=lambda _: None
    )


def _detect(text: bytes) -> None:
    engine = Engine(SIGNATURES)
    engine.feed(text)
    engine.close(None)


def _body(text: bytes) -> None:
    body = json.loads(text)
    if isinstance(body, dict):
        for what in ROUTES:
            _checked_body(what, body)


def _checked_body(what: str, body: Mapping[str, Any]) -> None:
    try:
        said = checked(what, body)
    except OrchError:
        return
    if what == "run":
        RunRequest.of(said)


def _frame(text: bytes) -> None:
    """Checked as the link does, and then read by those for whom it is."""
    frame = frames.decode(text)
    require_frame(frame, len(text))
    frames.raw_size(frame)
    for op in OPS:
        wrong_answer(op, frame.get("value"))
    if frame["kind"] == "gpus":
        for sample in gpus_sampled(frame).samples:
            notes(sample.extra)
    if frame["kind"] in {"bytes", "gap", "exit", "gone", "session", "told"}:
        watch = Watch("w", {"log_offset": 0, "metrics_offset": 0}, _Nobody())
        watch.accept(frame)
        Follower(watch, CLOCK, 0)._events(frame)


def _text(reader: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda text: reader(text.decode("utf-8", "replace"))


_BAD = (frames.BadFrame, OrchError)
_JSON = (ValueError, RecursionError, OrchError)
READERS: dict[str, Reader] = {
    "frames": Reader(_frame, 20.0, _BAD),
    "reshaped frames": Reader(_frame, 25.0, _BAD, "frame"),
    "api bodies": Reader(_body, 5.0, _JSON),
    "reshaped bodies": Reader(_body, 10.0, _JSON, "body"),
    "terminal": Reader(terminal.clean, 12.0),
    "shown text": Reader(_text(terminal.one_line), 10.0),
    "prefixes": Reader(_text(terminal.read_prefix), 10.0),
    "metrics": Reader(lambda text: MetricsReader().feed(text), 10.0),
    "nvidia-smi": Reader(_text(nvidia_smi.parse_samples), 5.0),
    "tmux": Reader(_text(tmux.parse_sessions), 5.0),
    "elastic": Reader(lambda text: elastic.read_table(text.decode("latin-1").split("\n")), 5.0),
    "kernel": Reader(_text(kernel_log.read_kernel_line), 5.0),
    "ssh config": Reader(_text(ssh_config.parse_ssh_config), 5.0),
    "surveys": Reader(_text(parse_survey), 5.0),
    "lags": Reader(_text(lags), 5.0),
    "conditions": Reader(_text(parse_until), 3.0, (OrchError,)),
    "patterns": Reader(lambda text: read_pattern(text[:200].decode("latin-1")), 1.0, (ValueError,)),
    "places": Reader(_text(split_place), 3.0, (OrchError,)),
    "secrets": Reader(lambda text: covered(SECRETS, text), 2.0),
    "redaction": Reader(_text(redact), 1.0),
    "detection": Reader(_detect, 2.0),
    "inventory": Reader(_inventory, 0.8, (OrchError,)),
    "reshaped inventories": Reader(_inventory, 0.8, (OrchError,), "inventory"),
}
"""What is slow gets fewer inputs."""
