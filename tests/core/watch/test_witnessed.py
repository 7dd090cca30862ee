"""What the kernel adds to a verdict that the log and the exit record have given."""

from orchestrator.core.detect.engine import diagnose
from orchestrator.core.findings import Certainty
from orchestrator.core.model import ExitRecord
from orchestrator.core.parse.kernel_log import KernelEvent, KernelEventKind
from orchestrator.core.watch.witnessed import MOST_EVIDENCE, with_kernel

SEGFAULT = KernelEvent(
    kind=KernelEventKind.SEGFAULT, text="python3[7]: segfault at 0 in libnccl.so.2"
)
OOM = KernelEvent(kind=KernelEventKind.OOM_KILL, text="container 200 reached its memory limit")


def record(signal: int) -> ExitRecord:
    """A program that a signal ended."""
    return ExitRecord(code=None, signal=signal, started_at=1.0, ended_at=2.0)


def test_a_bare_signal_is_more_than_a_guess_once_the_kernel_tells_of_it() -> None:
    """Nothing was printed; which library it was in is in the evidence, and so in the alert."""
    bare = diagnose([b"step 5\n"], exit_record=record(11))
    assert bare.certainty is Certainty.GUESS
    told = with_kernel(bare, [SEGFAULT])
    assert told.signature == bare.signature == "segfault"
    assert told.certainty is Certainty.LIKELY
    assert told.evidence[-1] == f"kernel: {SEGFAULT.text}"


def test_a_verdict_of_the_log_keeps_its_cause_and_gains_evidence() -> None:
    """The newest three; room is made for them."""
    log = b"Traceback (most recent call last):\n  File 'a.py', line 1, in f\nValueError: x\n"
    found = diagnose([log], exit_record=ExitRecord(code=1, signal=None, started_at=1, ended_at=2))
    told = with_kernel(found, [SEGFAULT] * 5)
    assert (told.signature, told.certainty) == (found.signature, found.certainty)
    assert told.evidence[-3:] == (f"kernel: {SEGFAULT.text}",) * 3
    assert len(told.evidence) <= MOST_EVIDENCE


def test_what_went_well_or_was_said_already_is_left_alone() -> None:
    """A run that finished has no use for it; an OOM kill is the verdict's own sentence."""
    fine = diagnose(
        [b"done\n"], exit_record=ExitRecord(code=0, signal=None, started_at=1, ended_at=2)
    )
    assert with_kernel(fine, [SEGFAULT]) is fine
    killed = diagnose([b"Killed\n"], exit_record=record(9), kernel=[OOM])
    assert with_kernel(killed, [OOM]) is killed
