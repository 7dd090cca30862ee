"""The streaming engine: when a finding is told, what an exit record says, what stays bounded."""

import json
import tracemalloc
from dataclasses import replace

import pytest

from orchestrator.core.detect.engine import Engine, diagnose
from orchestrator.core.detect.signatures import parse_rule
from orchestrator.core.findings import Finding, Frame, Outcome, Role, Verdict, verdict_json
from orchestrator.core.model import ExitRecord
from orchestrator.core.parse.kernel_log import read_kernel_line

CRASH = (
    b'Traceback (most recent call last):\n  File "/srv/app/train.py", line 88, in step\n'
    b"    out = model(batch)\nKeyError: 'labels'\n"
)
THREAD = b"Exception in thread drafter-1:\n" + CRASH


def record(code: int | None, signal: int | None = None) -> ExitRecord:
    return ExitRecord(code=code, signal=signal, started_at=0.0, ended_at=9.0)


def test_finding_is_told_when_its_block_ends() -> None:
    """The next line ends a block, and with it the finding comes."""
    engine = Engine()
    assert engine.feed(b"step 1\n" + CRASH) == []
    (finding,) = engine.feed(b"step 2 loss 1.0\n")
    assert (finding.signature, finding.line, finding.offset) == ("python_error", 2, 7)
    assert finding.traceback == CRASH.decode().rstrip("\n")


def test_quiet_ends_a_complete_block_even_without_its_newline() -> None:
    """After a silence the exception stands, also where its last line has no end yet."""
    engine = Engine()
    assert engine.feed(THREAD.rstrip(b"\n")) == []
    (finding,) = engine.quiet()
    assert (finding.thread, finding.ends) == ("drafter-1", "thread")
    assert engine.quiet() == []


def test_what_was_told_in_a_silence_is_not_told_again() -> None:
    """The block ends later, and its finding is known by then; a longer chain has another word."""
    engine = Engine()
    engine.feed(THREAD)
    assert [item.thread for item in engine.quiet()] == ["drafter-1"]
    assert engine.feed(b"step 2 loss 1.0\n") == engine.quiet() == []
    assert [item.thread for item in engine.close().findings] == ["drafter-1"]


def test_quiet_leaves_a_stack_without_its_exception_open() -> None:
    """A stack that is still being printed is not told before its exception is there."""
    engine = Engine()
    head, _, tail = CRASH.rpartition(b"KeyError")
    assert engine.feed(head) == engine.quiet() == []
    engine.feed(b"KeyError" + tail)
    assert [item.signature for item in engine.quiet()] == ["python_error"]


def test_exit_code_zero_outweighs_the_text() -> None:
    """A traceback in the log of a program that ended well is no crash."""
    verdict = diagnose([CRASH], exit_record=record(0))
    assert (verdict.crash, verdict.verdict) == (False, Outcome.OK)


def test_exit_code_outweighs_signs_of_life() -> None:
    """A program that ended with 1 crashed, whatever it printed after its traceback."""
    log = CRASH + b"step 9 loss 1.0\n" * 9
    assert not diagnose([log]).crash
    assert diagnose([log], exit_record=record(1)).signature == "python_error"


@pytest.mark.parametrize(
    ("code", "signal", "outcome", "signature"),
    [
        (None, 9, Outcome.KILLED, "host_oom"),
        (None, 15, Outcome.STOPPED, "interrupted"),
        (None, 11, Outcome.CRASHED, "segfault"),
        (7, None, Outcome.CRASHED, "python_error"),
    ],
)
def test_end_without_any_text_is_told_from_the_record(
    code: int | None, signal: int | None, outcome: Outcome, signature: str
) -> None:
    """Where nothing was printed the code or signal alone is the evidence, and it is said so."""
    verdict = diagnose([b"step 1 loss 2.0\n"], exit_record=record(code, signal))
    assert (verdict.verdict, verdict.signature) == (outcome, signature)
    assert "only the" in verdict.certainty_reason
    assert (
        verdict.fingerprint == diagnose([b"other\n"], exit_record=record(code, signal)).fingerprint
    )
    assert verdict.fingerprint is not None


def test_kernel_line_proves_an_oom_kill() -> None:
    """SIGKILL with the kernel's line beside it is certain, and the line is the evidence."""
    line = "Memory cgroup out of memory: Killed process 4242 (python3) total-vm:1kB"
    event = read_kernel_line(line)
    assert event is not None
    verdict = diagnose([b"step 1\n"], exit_record=record(None, 9), kernel=[event])
    assert (verdict.signature, verdict.evidence) == ("host_oom", (line,))


def test_earliest_root_stands_above_its_cascade() -> None:
    """The rank that failed is the root; ranks that lost their peer are below it."""
    log = b"".join(
        b"[rank1]: " + line + b"\n" for line in CRASH.rstrip(b"\n").split(b"\n")
    ) + b"".join(
        b"[rank0]: " + line + b"\n"
        for line in CRASH.replace(
            b"KeyError: 'labels'", b"RuntimeError: [gloo/transport/tcp] Connection closed by peer"
        )
        .rstrip(b"\n")
        .split(b"\n")
    )
    verdict = diagnose([log])
    assert (verdict.rank, verdict.exception and verdict.exception.type) == (1, "KeyError")
    assert [item.role for item in verdict.findings] == [Role.ROOT, Role.CASCADE]


def test_own_rule_is_found_and_ends_the_run() -> None:
    """A user's rule in HyperPod's words is a signature like any other."""
    rule = parse_rule({"name": "lost", "logPattern": r"lease lost by \w+", "faultOnMatch": True})
    assert diagnose([b"lease lost by node3\n"], [rule]).signature == "lost"


def test_document_has_the_keys_of_the_contract() -> None:
    """`orch diagnose --json` prints these keys, in this order first."""
    verdict = diagnose([CRASH])
    document = verdict_json(verdict, "run.log")
    assert list(document)[:22] == [
        "schema",
        "file",
        "verdict",
        "crash",
        "signature",
        "title",
        "severity",
        "transient",
        "family",
        "fingerprint",
        "exception",
        "root_exception",
        "frame",
        "in_app_frame",
        "rank",
        "thread",
        "line",
        "truncated",
        "cause",
        "next_steps",
        "references",
        "findings",
    ]
    assert document["findings"][0] == {
        "signature": "python_error",
        "role": "root",
        "line": 1,
        "rank": None,
        "text": "KeyError: 'labels'",
    }
    assert Verdict.from_json(json.loads(json.dumps(verdict.to_json()))) == verdict


def test_what_a_newer_orch_stored_is_read_without_what_it_tells_besides() -> None:
    """An older daemon of a fleet takes a run over: nothing that it does not know ends it."""
    verdict = diagnose([CRASH])
    stored = json.loads(json.dumps(verdict.to_json()))
    assert stored["exception"]
    for part in (stored, stored["exception"], stored["findings"][0]):
        part["of_tomorrow"] = 1
    stored["frame"] = {"file": "a.py", "line": 3, "function": "f", "of_tomorrow": 1}
    frame = Frame(file="a.py", line=3, function="f")
    assert Verdict.from_json(stored) == replace(verdict, frame=frame)


def test_memory_stays_bounded_on_a_log_of_stacks() -> None:
    """Behind the first megabytes of tracebacks many more leave next to nothing behind."""
    engine = Engine()
    for _ in range(3):
        engine.feed(CRASH * 8000)
    tracemalloc.start()
    for _ in range(6):
        engine.feed(CRASH * 8000)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used < 6_000_000
    assert engine.close().signature == "python_error"


def test_rare_failure_in_a_flood_is_found() -> None:
    """One failure of another kind in the middle of megabytes of stacks is among the findings."""
    rare = CRASH.replace(b"KeyError: 'labels'", b"torch.OutOfMemoryError: CUDA out of memory.")
    engine = Engine()
    for _ in range(2):
        engine.feed(CRASH * 8000)
    engine.feed(CRASH * 8000 + rare + CRASH * 8000)
    assert "cuda_oom" in {item.signature for item in engine.close().findings}


@pytest.mark.parametrize("size", [5_000, 1_000_000])
def test_flood_is_read_in_parts_whatever_its_pieces_and_its_end_always(size: int) -> None:
    """Of megabytes of stacks few are told; the one that came last, small piece or large, is."""
    last = CRASH.replace(b"KeyError: 'labels'", b"ImportError: cannot import name 'x'")
    flood = CRASH * 40_000
    engine = Engine()
    told = [
        finding
        for start in range(0, len(flood), size)
        for finding in engine.feed(flood[start : start + size])
    ]
    assert len(told) < 4000
    told = engine.feed(last) + engine.quiet()
    assert told[-1].signature == "import_error"
    engine.feed(CRASH * 4000 + last)
    assert "import_error" in {item.signature for item in engine.close().findings}


def test_flood_is_read_the_same_in_whatever_pieces_it_comes() -> None:
    """What is told of a log of which parts are read, and its verdict, hang on no chunk's size."""
    rare = CRASH.replace(b"KeyError: 'labels'", b"ImportError: cannot import name 'x'")
    log = THREAD * 70_000 + rare + b"step 2 loss 1.0\n" * 30_000 + CRASH * 100_000 + rare

    def read(size: int) -> tuple[list[Finding], Verdict]:
        engine = Engine()
        told = [
            finding
            for start in range(0, len(log), size)
            for finding in engine.feed(log[start : start + size])
        ]
        return told, engine.close()

    assert read(4 << 20) == read(50_000) == read(len(log))


STACK_IN_A_LINE = json.dumps({"level": "error", "exc": CRASH.decode()}).encode() + b"\n"
LONG_LINE = b"slurmstepd: error: Detected 1 oom_kill event in StepId=1.0. " + b"x" * 30_000 + b"\n"


@pytest.mark.parametrize(
    ("line", "least", "most"),
    [(STACK_IN_A_LINE, 300, 700), (LONG_LINE, 100, 300)],
    ids=["stack_in_a_line", "long_line"],
)
def test_lines_that_cost_more_count_for_more(line: bytes, least: int, most: int) -> None:
    """Of megabytes of stacks in one line each, or of long lines, fewer are read and told."""
    engine = Engine()
    told = [item for _ in range(200) for item in engine.feed(line * (30_000 // len(line) + 1))]
    assert least < len(told) < most


def test_numbers_of_lines_count_what_was_not_read() -> None:
    """A line behind a flood has the number that an editor shows."""
    engine = Engine()
    engine.feed(CRASH * 60_000)
    engine.feed(b"step 1 loss 2.0\nslurmstepd: error: Detected 1 oom_kill event in StepId=1.0.\n")
    verdict = engine.close()
    assert max(item.line for item in verdict.findings) == 4 * 60_000 + 2


def test_evidence_names_the_lines_of_the_log_that_say_it() -> None:
    """The exception and the user's own frame stand with the numbers of their very lines."""
    verdict = diagnose([b"step 1\n" * 5 + CRASH])
    assert verdict.line == 6
    assert verdict.evidence == ("9: KeyError: 'labels'", "7: /srv/app/train.py:88 in step")


def test_lines_and_bytes_that_were_passed_over_are_counted() -> None:
    """A daemon that reads only a log's newest part names lines by their numbers in the whole."""
    engine = Engine()
    engine.pass_over(b"step 1\nstep 2\n")
    engine.feed(CRASH)
    (finding,) = engine.quiet()
    assert (finding.line, finding.offset, engine.close().line) == (3, 14, 3)


def test_line_without_an_end_does_not_grow() -> None:
    """A program that never ends its line costs no more than the longest line that is kept."""
    engine = Engine()
    tracemalloc.start()
    for _ in range(60):
        engine.feed(b"x" * 100_000)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used < 2_000_000


def test_a_chain_longer_than_the_budget_of_lines_is_read_to_its_end() -> None:
    """Twenty thousand layers: the first says why, the last is what was raised."""
    first = CRASH.replace(b"KeyError: 'labels'", b"OSError: [Errno 28] No space left on device")
    link = b"\nThe above exception was the direct cause of the following exception:\n\n"
    layers = (
        link + CRASH.replace(b"KeyError: 'labels'", b"RuntimeError: layer %d" % number)
        for number in range(20_000)
    )
    verdict = diagnose([first + b"".join(layers)])
    assert (verdict.signature, verdict.line) == ("disk_full", 1)
    assert verdict.exception is not None
    assert verdict.exception.message == "layer 19999"


@pytest.mark.parametrize(
    ("text", "signature"),
    [
        ("step 1\nbash: -c: line 1: syntax error near unexpected token `then'\n", "python_error"),
        (
            "op.c:7:20: error: 'x' undeclared\nmake: *** [op.o] Error 1\n",
            "python_error",
        ),
        (
            "Collecting torch\nERROR: No matching distribution found for torch==9.9\n",
            "python_error",
        ),
        (
            "train: /lib/libc.so.6: version `GLIBC_2.38' not found (required by _C.so)\n",
            "import_error",
        ),
        ("step 10\nThe node was low on resource: memory. Threshold quantity: 100Mi\n", "host_oom"),
    ],
)
def test_ends_without_python_are_known(text: str, signature: str) -> None:
    """A shell, a compiler, an installer, the loader, a scheduler: each in its own words."""
    verdict = diagnose([text.encode()])
    assert (verdict.crash, verdict.signature) == (True, signature)
