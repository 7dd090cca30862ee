"""Ends that no stack tells: last words, exit codes, the kernel's lines, a rule's own words."""

import pytest

from orchestrator.core.detect.engine import Engine, diagnose
from orchestrator.core.detect.signatures import parse_rule
from orchestrator.core.findings import Outcome, Role, Verdict
from orchestrator.core.model import ExitRecord
from orchestrator.core.parse.kernel_log import read_kernel_line

STEPS = b"step 1 loss 2.31\nstep 2 loss 2.29\n"


def record(code: int | None, signal: int | None = None) -> ExitRecord:
    return ExitRecord(code=code, signal=signal, started_at=0.0, ended_at=9.0)


def judged(text: str) -> Verdict:
    return diagnose([STEPS + text.encode()])


@pytest.mark.parametrize(
    "words",
    [
        "No training data found in /data/train",
        "Cannot read: step_400.pt is newer than the configuration",
        "configs/base.yaml:7: unknown key learing_rate",
        "Failed to read the tokenizer",
        "Missing required argument --data",
        "global batch 100 must be divisible by 8 ranks",
        "vocab size 32000 does not match the tokenizer's 32001",
        "tensor parallel size must divide 8 heads",
    ],
)
def test_sentence_of_refusal_at_the_end_is_an_end(words: str) -> None:
    """A program that leaves with sys.exit(sentence) before its first step crashed of that."""
    verdict = diagnose([f"reading the configuration\n{words}\n".encode()])
    assert (verdict.signature, verdict.evidence) == ("python_error", (f"2: {words}",))


@pytest.mark.parametrize(
    "words",
    [
        "cannot resume: step 400 is newer than the configuration",
        "error: no space",
        "rc=3",
        "output folder /ckpt is not empty; use --overwrite",
    ],
)
def test_sentence_of_giving_up_is_an_end_at_any_time(words: str) -> None:
    """Behind steps of training it takes plainer words: a sum or a remark may stand there too."""
    assert judged(words + "\n").signature == "python_error"


@pytest.mark.parametrize(
    "words",
    [
        "No checkpoint found, starting from scratch\nstep 3 loss 2.2\n",
        "training finished\nCould not delete the scratch folder\n",
        "WARNING: Failed to import flash_attn\n",
        "Unable to use flash attention, falling back to eager\n",
        "No improvement for 10 epochs\n",
        "Missing keys: []\n",
        "No errors found\n",
        "Could not beat the baseline\n",
        "Killed 3 stale workers\n",
        "Terminated training early: nothing improves\n",
        "error: 0.031\n",
        "Invalid samples: 0\n",
        "Failed to decode: 0.0%\n",
        "Expected calibration error 0.031\n",
        "flash attention is not installed, using scaled dot products\n",
        "bf16 is not supported on this card; fp32 will be used\n",
        "HF_TOKEN is not set; public models only\n",
        "no action is required\n",
        "the tokenizer does not match the default template\n",
        "[1]+  Done                    python train.py\n",
        "[2]-  Terminated              tensorboard --logdir runs\n",
    ],
)
def test_sentence_that_only_sounds_so_is_none(words: str) -> None:
    """What is handled, followed by work, behind the end of the work or a logger's is no end."""
    assert not judged(words).crash


@pytest.mark.parametrize(("code", "signal"), [(None, 9), (137, None)])
def test_kernel_line_counts_whether_signal_or_code_tells_of_sigkill(
    code: int | None, signal: int | None
) -> None:
    """A shell turns signal 9 into 137: the kernel's line proves an OOM either way."""
    event = read_kernel_line(
        "Memory cgroup out of memory: Killed process 42 (python3) total-vm:1kB"
    )
    assert event is not None
    verdict = diagnose([STEPS], exit_record=record(code, signal), kernel=[event])
    assert (verdict.signature, verdict.certainty.value) == ("host_oom", "certain")


def test_rule_may_ask_for_the_level_in_front_of_a_line() -> None:
    """A rule's pattern sees the line as it is, not only what stands behind time and level."""
    rule = parse_rule({"name": "vendor", "pattern": r"FATAL E\d+", "fault_on_match": True})
    log = [STEPS + b"2026-11-29 19:00:00 FATAL E117: link lost\n"]
    assert diagnose(log, [rule]).signature == "vendor"


def test_nan_loss_of_a_run_that_ended_well_is_a_finding_and_no_crash() -> None:
    """Exit code 0 makes no crash of a NaN that was noticed, and nothing says the run stopped."""
    engine = Engine()
    (finding,) = engine.feed(STEPS + b"loss is nan, stopping early\n")
    verdict = engine.close(record(0))
    assert (finding.signature, verdict.crash, verdict.verdict) == ("nan_loss", False, Outcome.OK)
    assert [(one.signature, one.role) for one in verdict.findings] == [
        ("nan_loss", Role.DIAGNOSTIC)
    ]
    assert "stopped" not in finding.title
    assert "stopped itself" in diagnose([STEPS + b"loss is nan, aborting\n"]).title


def test_collective_that_never_came_is_a_hang() -> None:
    """Where the watchdog ended ranks that waited, the verdict is `hung`."""
    verdict = judged(
        "[rank0]:[E1129 19:00:00.1 ProcessGroupNCCL.cpp:607] [Rank 0] Watchdog caught collective"
        " operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1,"
        " Timeout(ms)=600000) ran for 600003 milliseconds before timing out.\n"
        "[rank0]:[E1129 19:00:01.1 ProcessGroupNCCL.cpp:621] [Rank 0] Some NCCL operations have"
        " failed or timed out. To avoid data inconsistency, we are taking the entire process"
        " down.\n"
    )
    assert (verdict.verdict, verdict.signature, verdict.crash) == (
        Outcome.HUNG,
        "nccl_timeout",
        True,
    )


@pytest.mark.parametrize(
    ("line", "signature"),
    [
        ("systemd[1]: train.service: Failed with result 'oom-kill'.", "host_oom"),
        ("train.service: Main process exited, code=killed, status=9/KILL", "host_oom"),
        ("train.service: Main process exited, code=dumped, status=11/SEGV", "segfault"),
        ("TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.", "host_oom"),
        ("TERM_RUNLIMIT: job killed after reaching LSF run time limit.", "interrupted"),
        ("=>> PBS: job killed: walltime 3605 exceeded limit 3600", "interrupted"),
        ("INFO exited: train (terminated by SIGSEGV (core dumped); not expected)", "segfault"),
        ("WARN exited: train (exit status 1; not expected)", "elastic_child_failed"),
        ("##[error]Process completed with exit code 1.", "elastic_child_failed"),
        ("[1]+  Exit 3                  python train.py", "elastic_child_failed"),
        ("[1]-  Exit 139                python train.py", "segfault"),
        ("[1]+  Terminated              python train.py", "interrupted"),
        (
            "slurmstepd: error: *** JOB 8 ON n4 CANCELLED AT 2025-11-03T02:14:55 DUE",
            "interrupted",
        ),
        (
            "Exception raised from checkTimeout at /pytorch/torch/csrc/distributed/c10d"
            "/ProcessGroupNCCL.cpp:632 (most recent call first):",
            "nccl_timeout",
        ),
        ("zsh: killed     python train.py", "host_oom"),
        ("zsh: segmentation fault (core dumped)  python train.py", "segfault"),
        ("zsh: terminated  python train.py", "interrupted"),
        (
            "fish: Job 1, 'python train.py' terminated by signal SIGSEGV (Address boundary error)",
            "segfault",
        ),
        ("make: *** [Makefile:7: train] Killed", "host_oom"),
        ("make: *** [Makefile:7: train] Segmentation fault (core dumped)", "segfault"),
        ("make: *** [Makefile:7: train] Error 2", "elastic_child_failed"),
        ("Command exited with non-zero status 3", "elastic_child_failed"),
        ("[entrypoint] train.py exited with status 7", "elastic_child_failed"),
        ("[entrypoint] train failed with exit code 139", "segfault"),
        ("[entrypoint] train.py ended with status 137", "host_oom"),
        ("run.sh: line 4: torchrunn: command not found", "python_error"),
    ],
)
def test_supervisors_say_how_it_ended(line: str, signature: str) -> None:
    """Supervisors, schedulers, a shell and a CI's runner name the end where the program did not."""
    assert judged(f"{line}\n").signature == signature


def test_worker_that_left_with_a_sentence_is_named_by_it() -> None:
    """torchrun's table knows an exit code alone; what the worker said before is the cause."""
    closing = "".join(
        f"W1130 01:38:43.07{n}000 29938 torch/distributed/elastic/multiprocessing/api.py:1028]"
        f" Sending process 2994{n} closing signal SIGTERM\n"
        for n in range(7)
    )
    failed = (
        "E1130 01:38:43.095000 29938 torch/distributed/elastic/multiprocessing/api.py:1002] failed"
        " (exitcode: 1) local_rank: 1 (pid: 29940) of binary: /usr/bin/python\n"
    )
    said = judged(f"shard 7 has no labels, giving up\n{closing}{failed}")
    assert (said.signature, said.evidence) == (
        "python_error",
        ("3: shard 7 has no labels, giving up",),
    )
    assert judged(closing + failed).signature == "elastic_child_failed"


def test_logger_s_error_may_name_a_number_as_progress_does() -> None:
    """`batch 100 must be ...` is a condition that was not met, though it reads as a step."""
    at = "2026-11-29 19:00:00,123"
    verdict = judged(
        f"{at} INFO root: loading\n{at} ERROR root: batch 100 must divide by 8 ranks\n"
    )
    assert verdict.signature == "python_error"
    assert not judged(f"{at} ERROR root: step 100 loss 2.2\n").crash


@pytest.mark.parametrize(("code", "signature"), [(5, "python_error"), (137, "host_oom")])
def test_exit_code_of_a_loaders_worker_says_what_it_died_of(code: int, signature: str) -> None:
    """A worker that left by itself was not killed for want of memory."""
    stack = 'Traceback (most recent call last):\n  File "/srv/app/train.py", line 9, in fit\n'
    verdict = judged(
        f"{stack}RuntimeError: DataLoader worker (pid 77) exited unexpectedly with exit code"
        f" {code}."
        " Details are lost due to multiprocessing.\n\n"
        "The above exception was the direct cause of the following exception:\n\n"
        f"{stack}RuntimeError: DataLoader worker (pid(s) 77) exited unexpectedly\n"
    )
    assert verdict.signature == signature


def test_last_of_the_attempts_is_no_new_start() -> None:
    """`attempt 3/3 failed` behind a stack ends it; `attempt 2/3` promises another."""
    stack = (
        'Traceback (most recent call last):\n  File "/srv/app/fetch.py", line 9, in fetch\n'
        "    raise ConnectionError(k)\nConnectionError: shard 7\n"
    )
    assert judged(f"{stack}attempt 3/3 failed\n").crash
    assert not judged(f"{stack}attempt 2/3\nstep 3 loss 2.2\n").crash


NCCL_LOST = (
    "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:268, remote process exited "
    "or there was a network error, NCCL version 2.21.5"
)
HOOKED = (
    "[rank5]: Traceback (most recent call last):\n"
    '[rank5]:   File "/srv/train.py", line 61, in main\n'
    "[rank5]:     loss = model(batch)\n"
    "[rank5]: ValueError: shard 3 has no tokens\n"
)


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        (HOOKED, "rank"),
        (HOOKED.replace("[rank5]: ", "[default5]:[rank5]: "), "rank"),
        (HOOKED.replace("[rank5]: ", "[rank5]:"), None),
        (HOOKED.replace("[rank5]: ", ""), None),
        ("[rank5]: step 3 loss 2.1\n" + HOOKED, None),
        (HOOKED.replace("ValueError: shard 3 has no tokens", NCCL_LOST), None),
    ],
    ids=["hook", "hook behind a tag", "tag alone", "bare", "every line is marked", "a lost peer"],
)
def test_what_torch_prints_of_an_uncaught_exception_ends_its_rank(
    text: str, ends: str | None
) -> None:
    """It is told while the other ranks wait, for minutes at times, not at the end of them all."""
    engine = Engine()
    found = engine.feed(STEPS + text.encode()) + engine.quiet()
    assert [one.ends for one in found] == [ends]
