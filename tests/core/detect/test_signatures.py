"""The signatures as data: complete, and harmless to the reader's time."""

import re
import time

import pytest

from orchestrator.core.detect.prefilter import STRUCTURE
from orchestrator.core.detect.signatures import load, parse_rule
from orchestrator.core.parse import terminal, traceback

ALL = load()
PATTERNS = sorted(
    {
        pattern
        for item in ALL
        for pattern in (*item.types, *item.says, *item.lines, *item.unless, *item.frames)
    }
    | set(STRUCTURE)
    | {
        value.pattern
        for module in (terminal, traceback)
        for value in vars(module).values()
        if isinstance(value, re.Pattern)
    }
)
NASTY = (
    "a" * 16_000,
    " " * 16_000,
    "x." * 8_000,
    "Error: " * 2_300,
    "loss nan " * 1_700,
    "[" * 16_000,
    "1" * 16_000,
    '  File "' + "/a" * 8_000,
    "CUDA error " * 1_400,
    "2026-01-01 " * 1_400,
    "| " * 8_000,
    "-" * 16_000,
    "exit code " * 1_600,
    "Traceback " * 1_600,
)


def test_every_signature_says_what_a_person_needs() -> None:
    """Cause and next steps are there, and the first reference is one that can be opened."""
    for item in ALL:
        assert item.title, item.id
        assert item.cause.endswith("."), item.id
        assert item.next_steps, item.id
        assert all(link.startswith("https://") for link in item.references), item.id


def test_ids_of_the_contract_are_all_there() -> None:
    """What `orch diagnose --json` may say."""
    assert {item.id for item in ALL} == {
        "silent_eager",
        "fx_trace_race",
        "fx_trace_nested",
        "dynamo_compile_error",
        "triton_error",
        "cuda_oom",
        "host_oom",
        "cuda_illegal_access",
        "cuda_device_assert",
        "gpu_fault",
        "cublas_cudnn_error",
        "nccl_timeout",
        "nccl_error",
        "rendezvous_or_port",
        "driver_mismatch",
        "import_error",
        "checkpoint_corrupt",
        "disk_full",
        "shm_exhausted",
        "segfault",
        "nan_loss",
        "hub_or_dataset_error",
        "interrupted",
        "python_error",
        "elastic_child_failed",
    }


@pytest.mark.parametrize("pattern", PATTERNS)
def test_no_pattern_is_slow_on_nasty_lines(pattern: str) -> None:
    """Each pattern reads a longest line of the worst kinds in a moment: none backtracks away."""
    compiled = re.compile(pattern, re.VERBOSE if "\\ " in pattern and "\n" in pattern else 0)
    started = time.process_time()
    for text in NASTY:
        compiled.search(text[: terminal.MAX_LINE_CHARS])
    assert time.process_time() - started < 10


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"pattern": "x"}, "name: "),
        ({"name": "a"}, "pattern: "),
        ({"name": "a", "pattern": "("}, "pattern: '(' is no regular expression"),
        ({"name": "a", "pattern": "x*"}, "pattern: 'x*' matches an empty line"),
        ({"name": "a", "patterns": "x"}, "patterns: is no key of a rule; did you mean pattern?"),
        ({"name": "a", "pattern": "x", "severity": "loud"}, "severity: loud is none of"),
        ({"name": "a", "pattern": "x", "every": "soon"}, "every: soon is no length of time"),
        ({"name": "a", "pattern": "x", "op": "above", "value": 1}, "op: above is none of"),
    ],
)
def test_wrong_rule_is_refused_with_key_and_reason(rule: dict[str, object], said: str) -> None:
    """The sentence begins with the key that is wrong."""
    with pytest.raises(ValueError, match="^" + re.escape(said)):
        parse_rule(rule)


def test_hyperpods_words_are_understood() -> None:
    """A rule written for HyperPod means the same here."""
    made = parse_rule(
        {
            "name": "slow",
            "logPattern": r"samples/sec: (?P<value>[\d.]+)",
            "metricThreshold": 80,
            "operator": "lteq",
            "metricEvaluationDataPoints": 25,
            "expectedStartCutOffInSeconds": 600,
            "expectedRecurringFrequencyInSeconds": 300,
            "stopPattern": "training finished",
        }
    )
    wanted = made.expectation
    assert wanted is not None
    assert (wanted.value, wanted.operator, wanted.points) == (80.0, "lteq", 25)
    assert (wanted.start_within_s, wanted.every_s, wanted.until) == (
        600.0,
        300.0,
        "training finished",
    )
    assert made.role.value == "diagnostic"
