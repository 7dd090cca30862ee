"""What terminals really show, one row for each form: each is read as if nothing stood around it.

The forms in which a launcher, a log collector or a pane changes all lines are in `test_logs`.
"""

from dataclasses import dataclass

import pytest

from orchestrator.core.detect.engine import diagnose

HEAD = "Traceback (most recent call last):\n"
MAIN = '  File "/srv/app/train.py", line 40, in main\n    step(batch)\n'
STEP = '  File "/srv/app/train.py", line 88, in step\n    out = net(batch["ids"])\n'
MARKED = STEP + "          ^^^^^^^^^^^^^^^^^^\n"
CRASH = f"{HEAD}{MAIN}{STEP}KeyError: 'ids'\n"
STEPS = "step 1 loss 2.31\nstep 2 loss 2.30\n"


@dataclass(frozen=True)
class Row:
    """One form, and what must be read out of it."""

    text: str
    signature: str = "python_error"
    exception: str | None = "KeyError"
    function: str | None = "step"
    rank: int | None = None
    thread: str | None = None
    root: str | None = None
    truncated: bool = False


def each(prefix: str, text: str = CRASH) -> str:
    return "".join(f"{prefix}{line}\n" for line in text.rstrip("\n").split("\n"))


def woven(*texts: str) -> str:
    """Line by line, as ranks print that fail at once."""
    rows = [text.rstrip("\n").split("\n") for text in texts]
    longest = max(map(len, rows))
    return "".join(f"{lines[i]}\n" for i in range(longest) for lines in rows if i < len(lines))


BOX = (
    "\u256d\u2500\u2500\u2500 Traceback (most recent call last) \u2500\u2500\u2500\u256e\n"
    "\u2502 /srv/app/train.py:40 in main                \u2502\n"
    "\u2502 \u2771 40     step(batch)                         \u2502\n"
    "\u2502 /srv/app/train.py:88 in step                \u2502\n"
    "\u2502 \u2771 88     out = net(batch)                    \u2502\n"
    + "\u2570"
    + "\u2500" * 15
    + "\u256f\nKeyError: 'ids'\n"
)
CAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
TABLE = (
    "train.py FAILED\n------------------------------------------------------------\n"
    "Failures:\n  <NO_OTHER_FAILURES>\n"
    "------------------------------------------------------------\n"
    "Root Cause (first observed failure):\n[0]:\n  time      : 2026-11-29_19:00:00\n"
    "  host      : node1\n  rank      : 3 (local_rank: 3)\n  exitcode  : -9 (pid: 4711)\n"
    "  error_file: <N/A>\n  traceback : Signal 9 (SIGKILL) received by PID 4711\n"
)
ELASTIC = (
    f'{HEAD}  File "/srv/env/bin/torchrun", line 8, in <module>\n    sys.exit(main())\n'
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
    "============================================================\n"
)
WATCHDOG = (
    "[rank2]:[E1129 19:00:00.1 ProcessGroupNCCL.cpp:632] [Rank 2] Watchdog caught collective"
    " operation timeout: WorkNCCL(SeqNum=41, OpType=ALLREDUCE, NumelIn=8, NumelOut=8,"
    " Timeout(ms)=600000) ran for 600020 milliseconds before timing out.\n"
    "[rank2]:[E1129 19:00:00.2 ProcessGroupNCCL.cpp:2268] [PG ID 0 Rank 2] failure detected by"
    " watchdog at work sequence id: 41, last enqueued work: 42, last completed work: 40\n"
    "[rank2]:[E1129 19:00:00.3 ProcessGroupNCCL.cpp:684] [Rank 2] To avoid data inconsistency, we"
    " are taking the entire process down.\n"
    "terminate called after throwing an instance of 'c10::DistBackendError'\n"
    "  what():  [PG ID 0 Rank 2] Process group watchdog thread terminated with exception: [Rank 2]"
    " Watchdog caught collective operation timeout: WorkNCCL(SeqNum=41)\n"
    "Exception raised from checkTimeout at ProcessGroupNCCL.cpp:635 (most recent call first):\n"
    "frame #0: c10::Error::Error() + 0x80 (0x7f in /srv/env/lib/libc10.so)\n\n"
)

ROWS = {
    "plain": Row(STEPS + CRASH),
    "progress bar": Row(
        "  7%|7   | 7/100 [00:01<00:09,  9.1it/s]\r  8%|8   | 8/100 [00:01<00:09,  9.1it/s]" + CRASH
    ),
    "colours": Row(STEPS + CRASH.replace("KeyError", "\x1b[1;31mKeyError\x1b[0m")),
    "cursor": Row(STEPS + "\x1b[A\x1b[2K\x1b[?25h" + CRASH),
    "rich box": Row(STEPS + BOX),
    "markers": Row(f"{STEPS}{HEAD}{MAIN}{MARKED}KeyError: 'ids'\n"),
    "[rank3]:": Row(STEPS + each("[rank3]: "), rank=3),
    "[3]:": Row(STEPS + each("[3]: "), rank=3),
    "rank3|": Row(STEPS + each("rank3| "), rank=3),
    "[default3]:": Row(STEPS + each("[default3]:"), rank=3),
    "Ray": Row(STEPS + each("(RayWorker pid=911) ")),
    "Ray on a host": Row(STEPS + each("(RayTrainWorker pid=911, ip=10.0.0.2) ")),
    "pdsh and rank": Row(STEPS + each("node2: [rank9]: "), rank=9),
    "time and logger": Row(STEPS + each("2026-11-29 19:00:00,123 ERROR trainer: ")),
    "time alone": Row(STEPS + each("[19:00:00] ")),
    "journal": Row(STEPS + each("Nov 29 19:00:00 node1 train[411]: ")),
    "ranks interleaved": Row(
        STEPS + woven(each("[rank0]: "), each("[rank1]: "), each("[rank2]: ")), rank=0
    ),
    "ranks interleaved without labels": Row(STEPS + woven(CRASH, CRASH, CRASH)),
    "thread": Row(
        f"{STEPS}Exception in thread trainer-1 (fit):\n{CRASH}", thread="trainer-1 (fit)"
    ),
    "child process": Row(f"{STEPS}Process SpawnProcess-2:\n{CRASH}", thread="SpawnProcess-2"),
    "chain": Row(
        f"{STEPS}{CRASH}{CAUSE}{HEAD}{MAIN}RuntimeError: no batch\n",
        exception="RuntimeError",
        function="main",
        root="KeyError",
    ),
    "group": Row(
        f"{STEPS}  + Exception Group Traceback (most recent call last):\n"
        '  |   File "/srv/app/train.py", line 40, in main\n'
        "  | ExceptionGroup: readers (1 sub-exception)\n  +-+---------------- 1 ----------------\n"
        f"{each('    | ', CRASH)}    +------------------------------------\n"
    ),
    "ignored behind it": Row(
        f"{STEPS}{CRASH}Exception ignored in: <function Reader.__del__ at 0x7f10>\n{HEAD}"
        '  File "/srv/app/reader.py", line 12, in __del__\nOSError: closed before\n'
    ),
    "wrapper": Row(
        f"{STEPS}{HEAD}{MAIN}KeyError: Caught KeyError in DataLoader worker process 3.\n"
        f"Original {CRASH}"
    ),
    "faulthandler": Row(
        f"{STEPS}Fatal Python error: Segmentation fault\n\nThread 0x00007f01 (most recent call"
        ' first):\n  File "/usr/lib/python3.12/threading.py", line 359 in wait\n\n'
        "Current thread 0x00007f02 (most recent call first):\n"
        '  File "/srv/app/train.py", line 88 in step\n'
        '  File "/srv/app/train.py", line 40 in main\n',
        signature="segfault",
        exception=None,
    ),
    "terminate": Row(
        f"{STEPS}terminate called after throwing an instance of 'c10::Error'\n"
        "  what():  CUDA error: an illegal memory access was encountered\n"
        "CUDA kernel errors might be asynchronously reported at some other API call\n",
        signature="cuda_illegal_access",
        exception="c10::Error",
        function=None,
    ),
    "table of elastic": Row(
        STEPS + ELASTIC + TABLE, signature="host_oom", exception=None, function=None, rank=3
    ),
    "rank below its table": Row(
        STEPS
        + each("[rank1]: ")
        + ELASTIC
        + TABLE.replace("-9", "1").replace("rank: 3", "rank: 1"),
        rank=1,
    ),
    "watchdog": Row(
        STEPS + WATCHDOG,
        signature="nccl_timeout",
        exception="c10::DistBackendError",
        function=None,
        rank=2,
    ),
    "slurm": Row(
        f"{STEPS}{CRASH}srun: error: node1: task 0: Exited with exit code 1\n"
        "slurmstepd: error: *** STEP 7.0 ON node1 CANCELLED AT 2026-11-29T19:00:00 ***\n"
    ),
    "docker": Row(each("trainer-1  | ", STEPS + CRASH) + "trainer-1 exited with code 1\n"),
    "prompt": Row(f"{STEPS}{CRASH}root@ct200:/srv/app# \n"),
    "cut by a pane": Row(
        f"{STEPS}{HEAD}"
        '  File "/srv/environments/dflash/lib/python3.12/site-packages/torch/nn/modules/\n'
        "module.py\", line 1775, in _call_impl\n    return forward_call(*args)\nKeyError: 'ids'\n",
        function="_call_impl",
    ),
    "a worker's stack in a message": Row(
        f'multiprocessing.pool.RemoteTraceback: \n"""\n{CRASH}"""\n{CAUSE}{HEAD}{MAIN}'
        "KeyError: 'ids'\n"
    ),
    "last lines": Row(STEP + "KeyError: 'ids'\n", truncated=True),
    "last line": Row(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n",
        signature="cuda_oom",
        exception="torch.OutOfMemoryError",
        function=None,
        truncated=True,
    ),
    "rest of a message": Row(
        "\tsize mismatch for head.weight: copying a param with shape torch.Size([9]) from"
        " checkpoint, the shape in current model is torch.Size([8]).\n",
        signature="checkpoint_corrupt",
        exception=None,
        function=None,
        truncated=True,
    ),
}


def test_ranks_out_of_step_and_without_labels_lose_no_place() -> None:
    """Four ranks print one traceback, each a few lines behind the other: it is where it was."""
    lines = CRASH.rstrip("\n").split("\n")
    shown = sorted((at + 2 * rank, rank) for rank in range(4) for at in range(len(lines)))
    text = "".join(f"{lines[at - 2 * rank]}\n" for at, rank in shown)
    verdict = diagnose([(STEPS + text).encode()])
    assert verdict.frame is not None
    assert (verdict.frame.function, verdict.exception and verdict.exception.type) == (
        "step",
        "KeyError",
    )


@pytest.mark.parametrize("form", ROWS)
def test_form_is_read(form: str) -> None:
    """Class, exception, place, rank, thread, the chain's root and the cut are those of the row."""
    row = ROWS[form]
    verdict = diagnose([row.text.encode()])
    read = Row(
        text=row.text,
        signature=verdict.signature or "none",
        exception=verdict.exception.type if verdict.exception else None,
        function=verdict.frame.function if verdict.frame else None,
        rank=verdict.rank,
        thread=verdict.thread,
        root=verdict.root_exception.type if verdict.root_exception else None,
        truncated=verdict.truncated,
    )
    assert read == row
    assert verdict.crash
