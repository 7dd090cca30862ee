"""The torch.compile race at full depth: its faces, its neighbours, and the downgrade it invites."""

from pathlib import Path

import pytest

from orchestrator.core.detect.engine import diagnose
from orchestrator.core.findings import Role, Verdict

SAMPLES = Path(__file__).parent / "samples"
FAMILY = "compile_thread_race"


def judged(name: str) -> Verdict:
    return diagnose([(SAMPLES / f"{name}.log").read_bytes()])


@pytest.mark.parametrize(
    "name",
    [
        "ran_race_compiled_1",
        "ran_race_direct_1",
        "ran_race_direct_2",
        "form_fx_keyerror",
        "form_fault_compile",
    ],
)
def test_faces_are_one_family(name: str) -> None:
    """The sentence, CURRENT_PATCHER, a fake tensor, 2.14's KeyError and a SIGSEGV are one fault."""
    assert judged(name).family == FAMILY


def test_victim_is_named_and_the_remedy_with_it() -> None:
    """The thread that died is named, what helps comes first, and what does not is said."""
    verdict = judged("ran_race_compiled_1")
    assert verdict.thread == "drafter-0"
    assert "one process per GPU" in verdict.next_steps[0]
    assert any("error_on_nested_fx_trace=False" in step for step in verdict.next_steps)


def test_compile_of_the_other_thread_is_in_the_evidence() -> None:
    """A line of the compiler near the crash is shown beside it."""
    assert any("_dynamo" in line for line in judged("ran_race_compiled_1").evidence)


def test_victim_device_other_thread_and_cold_cache_are_said() -> None:
    """Two threads died of it: who, on which device, who else, and that the cache was cold."""
    cause = judged("ran_race_torn").cause
    assert "Here drafter-0 died." in cause
    assert "drafter-2 was tracing (line 25)." in cause
    log = (
        b"drafter-1: compile cache is cold, compiling for cuda:1\nstep 1 loss 2.0\n"
        b"Exception in thread drafter-1:\nTraceback (most recent call last):\n"
        b'  File "/srv/app/drafter.py", line 61, in draft\n    hidden = self.model(tokens)\n'
        b"RuntimeError: Detected that you are using FX to symbolically trace a dynamo-optimized"
        b" function. This is not supported at the moment.\n"
    )
    cause = diagnose([log]).cause
    assert "Here drafter-1 died on cuda:1." in cause
    assert "The compile cache was cold (line 1)." in cause


def test_face_of_a_newer_torch_has_its_own_cause() -> None:
    """The KeyError of 2.14 is not explained by the flag, which is thread-local there."""
    assert "2.14 made the tracing flag thread-local" in judged("form_fx_keyerror").cause


def test_trace_of_the_same_stack_is_no_race() -> None:
    """A tracer below the raise makes it deterministic; a patched module call alone does not."""
    assert judged("ran_dyn_nested").signature == "fx_trace_nested"
    assert judged("ran_race_direct_1").signature == "fx_trace_race"


def test_downgrade_without_a_crash_is_a_finding() -> None:
    """A run that let the race through finishes, and the fall to eager code is told."""
    verdict = judged("ran_race_noerr_1")
    assert not verdict.crash
    assert [(item.signature, item.role) for item in verdict.findings] == [
        ("silent_eager", Role.DIAGNOSTIC)
    ]
