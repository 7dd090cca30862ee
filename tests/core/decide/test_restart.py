"""Which failures are started again."""

from dataclasses import replace

import pytest

from orchestrator.core.decide.restart import LONGEST_BACKOFF_S, GiveUp, Restart, judge
from orchestrator.core.findings import Outcome, Verdict
from orchestrator.core.model import RestartPolicy


def _verdict(signature: str | None, *evidence: str) -> Verdict:
    return Verdict(
        verdict=Outcome.CRASHED, crash=True, signature=signature, evidence=tuple(evidence)
    )


@pytest.mark.parametrize(
    ("on", "signature", "again"),
    [
        ("infra", "nccl_timeout", True),
        ("infra", "nccl_error", True),
        ("infra", "rendezvous_or_port", True),
        ("infra", "hub_or_dataset_error", True),
        ("infra", "interrupted", False),
        ("interruption", "interrupted", True),
        ("fx_trace_race", "fx_trace_race", True),
        ("fx_trace_race", "fx_trace_nested", False),
        ("infra", "python_error", False),
        ("infra", None, False),
    ],
)
def test_groups_and_signatures(on: str, signature: str | None, again: bool) -> None:
    """A policy's word is a signature or a group of them."""
    choice = judge(
        RestartPolicy(on=(on,), max_attempts=9),
        _verdict(signature),
        exit_code=1,
        starts=[5.0],
        now=10.0,
    )
    assert isinstance(choice, Restart) is again


@pytest.mark.parametrize(
    ("line", "again"),
    [
        ("NVRM: Xid (PCI:0000:17:00): 48, pid=71, An uncorrectable double bit error", True),
        ("NVRM: Xid (PCI:0000:17:00): 63, pid='<unknown>', Row remapper", True),
        ("NVRM: Xid (PCI:0000:17:00): 94, pid=9, Contained error", True),
        ("NVRM: Xid (PCI:0000:17:00): 31, pid=48, MMU fault", False),
        ("NVRM: Xid (PCI:0000:48:00): 79, GPU has fallen off the bus", False),
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", True),
        ("CUDA error: unspecified launch failure", False),
    ],
)
def test_cuda_ecc_is_a_gpu_fault_of_memory(line: str, again: bool) -> None:
    """`cuda_ecc` is a gpu_fault with ECC or one of its Xids; a device's number is none."""
    choice = judge(
        RestartPolicy(on=("cuda_ecc",), max_attempts=2),
        _verdict("gpu_fault", f"7: {line}"),
        exit_code=1,
        starts=[5.0],
        now=10.0,
    )
    assert isinstance(choice, Restart) is again


@pytest.mark.parametrize(
    ("signature", "recorded", "again"),
    [(None, False, True), ("python_error", False, True), (None, True, False)],
)
def test_lost_is_an_end_without_a_record(
    signature: str | None, recorded: bool, again: bool
) -> None:
    """Whatever was printed before: a host that was rebooted leaves none."""
    choice = judge(
        RestartPolicy(on=("lost",), max_attempts=2),
        replace(_verdict(signature), recorded=recorded),
        exit_code=None,
        starts=[5.0],
        now=10.0,
    )
    assert isinstance(choice, Restart) is again


def test_an_end_without_a_record_is_called_lost() -> None:
    """As `restart.on` would have it."""
    choice = judge(
        RestartPolicy(on=("infra",), max_attempts=2),
        replace(_verdict(None), recorded=False),
        exit_code=None,
        starts=[5.0],
        now=10.0,
    )
    assert choice == GiveUp(reason="lost is not among the job's restart.on")


def test_exit_code_93_is_obeyed() -> None:
    """A program that asks not to be restarted is not."""
    choice = judge(
        RestartPolicy(on=("infra",), max_attempts=9),
        _verdict("nccl_error"),
        exit_code=93,
        starts=[],
        now=1.0,
    )
    assert choice == GiveUp(reason="exit code 93 asks for no restart")


def test_budget_counts_in_its_window() -> None:
    """Attempts that started before the window do not count."""
    rules = RestartPolicy(on=("infra",), max_attempts=2, within_s=100.0, backoff_s=10.0)
    verdict = _verdict("nccl_error")
    spent = judge(rules, verdict, exit_code=1, starts=[950.0, 990.0], now=1000.0)
    assert isinstance(spent, GiveUp)
    assert spent.reason.startswith("2 attempts within")
    fresh = judge(rules, verdict, exit_code=1, starts=[100.0, 200.0, 990.0], now=1000.0)
    assert fresh == Restart(at=1010.0, reason="nccl_error (infra): attempt 2 of 2 starts in 10 s")


def test_backoff_grows_to_its_limit() -> None:
    """The wait doubles with each attempt in the window, up to half an hour."""
    rules = RestartPolicy(on=("infra",), max_attempts=99, within_s=1e9, backoff_s=30.0)
    delays = []
    for attempts in (1, 2, 3, 50):
        choice = judge(
            rules, _verdict("nccl_error"), exit_code=1, starts=[1.0] * attempts, now=100.0
        )
        assert isinstance(choice, Restart)
        delays.append(choice.at - 100.0)
    assert delays == [30.0, 60.0, 120.0, LONGEST_BACKOFF_S]
