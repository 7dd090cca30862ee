"""Whole logs -> verdicts: what programs printed when they failed, and what only looks alarming.

`samples/ran_*` is output of programs that were run and did fail (torch 2.11 on two H200, 2.13 on a
CPU), paths shortened; `form_*` and `fine_*` are written in the form in which such programs print.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.core.detect.engine import Engine, diagnose
from orchestrator.core.detect.places import in_app
from orchestrator.core.findings import Frame, Verdict

SAMPLES = Path(__file__).parent / "samples"
EXPECTED = json.loads((SAMPLES / "expected.json").read_text())
CRASHES = sorted(name for name, want in EXPECTED.items() if want["crash"])
Lines = list[str]


def read(name: str) -> bytes:
    return (SAMPLES / f"{name}.log").read_bytes()


def told(verdict: Verdict) -> dict[str, object]:
    """The verdict in the terms of expected.json."""
    frame = verdict.frame
    place = f"{frame.file.split('/')[-1]}:{frame.line} {frame.function}" if frame else None
    return {
        "crash": verdict.crash,
        "signature": verdict.signature,
        "exception": verdict.exception.type if verdict.exception else None,
        "root": verdict.root_exception.type if verdict.root_exception else None,
        "frame": place,
        "rank": verdict.rank,
        "thread": verdict.thread,
    }


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_log_is_judged_as_expected(name: str) -> None:
    """Crash or not, signature, exception, frame, rank and thread are those of the sample."""
    assert told(diagnose([read(name)])) == EXPECTED[name]


def each(prefix: str) -> Callable[[Lines], Lines]:
    """Puts a prefix in front of every line, as a launcher or a log collector does."""
    return lambda lines: [prefix + line for line in lines]


def pane(width: int) -> Callable[[Lines], Lines]:
    """Cuts lines at a pane's edge and drops blanks at the end, as capture-pane shows them."""

    def cut(lines: Lines) -> Lines:
        shown = []
        for line in lines:
            left = re.sub(r"\x1b\[[0-9;]*m", "", line.rpartition("\r")[2])
            while len(left) > width:
                shown.append(left[:width].rstrip())
                left = left[width:]
            shown.append(left.rstrip())
        return shown

    return cut


def coloured(lines: Lines) -> Lines:
    """Colours frames and exceptions as Python 3.13 does."""
    frames = (
        re.sub(
            r'^(\s*)File ("[^"]+"), line (\d+), in (\S+)',
            "\\1File \x1b[35m\\2\x1b[0m, line \x1b[35m\\3\x1b[0m, in \x1b[35m\\4\x1b[0m",
            line,
        )
        for line in lines
    )
    return [
        re.sub(r"^((?:\w+\.)*\w+Error): (.*)", "\x1b[1;35m\\1\x1b[0m: \x1b[35m\\2\x1b[0m", line)
        for line in frames
    ]


def behind_a_bar(lines: Lines) -> Lines:
    """A progress bar that was not finished stands in front of the traceback's first line."""
    bar = "\r 37%|###7      | 370/1000 [00:12<00:21, 29.9it/s, loss=2.31]"
    return [bar + line if line.startswith("Traceback (most") else line for line in lines]


def long_healthy(lines: Lines) -> Lines:
    """Much ordinary output comes first."""
    return [
        f"step {i} | loss 2.{i % 999:03d} | errors: 0 | 12034 tok/s" for i in range(1200)
    ] + lines


def twins(lines: Lines) -> Lines:
    """Two processes print the same, line by line, and nothing says who is who."""
    return [line for line in lines for _ in (0, 1)]


SHAPES: dict[str, Callable[[Lines], Lines]] = {
    "docker_time": each("2026-11-29T19:00:00.123456789Z "),
    "compose": each("trainer-1  | "),
    "srun_label": each("3: "),
    "ray_actor": each("(RayTrainWorker pid=1234, ip=10.0.0.2) "),
    "logger": each("2026-11-29 19:00:00,123 INFO trainer: "),
    "hydra": each("[2026-11-29 19:00:00,123][stderr][ERROR] - "),
    "kubectl": each("[pod/trainer-0/main] "),
    "mpirun": each("[1,3]<stderr>:"),
    "torchrun_tee": each("[default3]:"),
    "pane_80": pane(80),
    "pane_200": pane(200),
    "coloured": coloured,
    "bar": behind_a_bar,
    "long_healthy": long_healthy,
    "twins": twins,
    "crlf": lambda lines: [line + "\r" for line in lines],
}
SHARE = 3
"""Each shape is held to every third crash, each crash to every third shape."""
WITHIN = {
    # two threads that tore each other's lines, or a bar inside a labelled line: the place is lost
    ("srun_label", "ran_race_compiled_3"),
    ("srun_label", "ran_tqdmerr"),
    # its last bar and its traceback are one line: two of each are read as a job that goes on
    ("twins", "form_bar_redrawn"),
    # two processes of which each prints two stacks
    ("twins", "ran_pool_star"),
    # a last sentence without a stack, behind INFO as a logger's remark stands there
    ("logger", "form_error_line_last"),
    ("logger", "form_ls_full"),
    ("logger", "ran_exit_said"),
    ("logger", "ran_sysexit_plain"),
    ("logger", "ran_sysexit"),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_shape_in_which_a_log_arrives_changes_nothing(shape: str) -> None:
    """The same failure is read out of every form in which its log may be shown."""
    wrong = []
    shown = CRASHES[list(SHAPES).index(shape) % SHARE :: SHARE]
    for name in shown:
        text = read(name).decode("utf-8", "replace").replace("\r\n", "\n")
        lines = SHAPES[shape](text.split("\n"))
        got, want = told(diagnose(["\n".join(lines).encode()])), EXPECTED[name]
        keys = ("crash", "signature", "exception", "frame")
        if any(got[key] != want[key] for key in keys) and (shape, name) not in WITHIN:
            wrong.append((name, {key: got[key] for key in keys if got[key] != want[key]}))
    assert wrong == [] or len(wrong) <= len(shown) // 25, wrong


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_size_of_the_chunks_changes_nothing(size: int) -> None:
    """A log that arrives in small pieces gives the verdict that it gives in one."""
    for name in CRASHES[size % 3 :: 15 if size == 1 else 4]:
        data = read(name)
        engine = Engine()
        for start in range(0, len(data), size):
            engine.feed(data[start : start + size])
        assert engine.close() == diagnose([data]), name


@pytest.mark.parametrize("size", [37, 900])
def test_silence_within_a_line_or_a_message_changes_nothing(size: int) -> None:
    """A pause tells what is there so far; the verdict is that of the log without pauses."""
    for name in sorted(EXPECTED)[size % 5 :: 9]:
        data = read(name)
        engine = Engine()
        for start in range(0, len(data), size):
            engine.feed(data[start : start + size])
            engine.quiet()
        assert engine.close() == diagnose([data]), name


HEALTHY = "".join(f"step {i} | loss {3 - i / 1000:.4f} | 11800 tok/s\n" for i in range(40))
CAUGHT = (
    'Traceback (most recent call last):\n  File "/srv/app/train.py", line 88, in step\n'
    "    out = model(batch)\n"
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    "batch 64 does not fit, trying 32\n"
)


def judged(text: str) -> Verdict:
    return diagnose([text.encode()])


@pytest.mark.parametrize("name", CRASHES)
def test_what_stands_around_a_crash_decides(name: str) -> None:
    """Restarted and well again it is none; noise behind it, a handled error before: no change."""
    text = read(name).decode("utf-8", "replace")
    want = EXPECTED[name]["signature"]
    restarted = "restarting worker group, 1/3 attempts left\nresumed from step 5\n" + HEALTHY
    assert not judged(text + restarted + "training finished\n").crash
    margin = "".join(f"    {line}\n" for line in text.replace("\r\n", "\n").split("\n"))
    quoted = f"{HEALTHY}--- generated sample ---\n{margin}--- end of sample ---\n{HEALTHY}"
    assert not judged(quoted).crash
    for noise in (
        "root@ct200:/srv/app# \n",
        "wandb: \nwandb: Run history:\nwandb: Synced 5 W&B file(s), 0 media file(s)\n",
        "/usr/lib/python3.11/multiprocessing/resource_tracker.py:254: UserWarning: "
        "resource_tracker: There appear to be 12 leaked semaphore objects to clean up\n",
    ):
        assert judged(text + noise).signature == want
    assert judged(CAUGHT + HEALTHY + text).signature == want


NO_TAIL = {
    "ran_nccl_shape",  # native frames alone
    "ran_checkpoint_meta",  # advice alone
}
"""What is left of these does not say that anything ended."""


@pytest.mark.parametrize("lines", [10, 20])
def test_tail_of_a_crash_is_still_a_crash(lines: int) -> None:
    """Given only what a pane shows, it is a crash, and where evidence is gone that is said."""
    for name in CRASHES:
        if EXPECTED[name]["thread"]:  # the others print on, and the line that named it may be gone
            continue
        if name in NO_TAIL:
            continue
        text = read(name).replace(b"\r\n", b"\n").rstrip(b"\n").split(b"\n")
        verdict = diagnose([b"\n".join(text[-lines:]) + b"\n"])
        assert verdict.crash, name
        cut = told(verdict)["frame"] != EXPECTED[name]["frame"] and verdict.exception is not None
        if cut and len(text) > lines and verdict.frame is None:
            assert verdict.truncated or verdict.signature == "elastic_child_failed", name


@pytest.mark.parametrize("name", ["ran_illegal_cupy", "ran_misaligned_cupy", "ran_oom_cupy"])
def test_a_library_compiled_by_cython_is_not_the_user_s_own_code(name: str) -> None:
    """Its frames name `cupy/cuda/device.pyx`, as if it lay beside the program."""
    frame = diagnose([read(name)]).in_app_frame
    assert frame is not None
    assert frame.file.endswith("/train.py")


def test_a_lone_cython_module_is_the_user_s_own_code() -> None:
    """`ops.pyx` with functions of the module `ops` is in no package; pandas' `index.pyx` is."""
    own = Frame(file="ops.pyx", line=3, function="ops.scan")
    of_pandas = Frame(file="index.pyx", line=7, function="pandas._libs.index.get")
    assert in_app(own)
    assert not in_app(of_pandas)


def deep(frames: int) -> Lines:
    """The lines of a recursion's frames between its first and its innermost one."""
    calls = [(f"line {10 + n % 2}, in f{n % 2}", f"    f{1 - n % 2}()") for n in range(frames - 2)]
    return [text for place, call in calls for text in (f'  File "/srv/walk.py", {place}', call)]


@pytest.mark.parametrize("frames", [1000, 1401, 1900])
def test_the_innermost_line_of_a_deep_recursion_is_told(frames: int) -> None:
    """However many frames stand above it; both ends of what was printed are shown."""
    first = ["Traceback (most recent call last):", '  File "/srv/train.py", line 3, in <module>']
    last = ['  File "/srv/model.py", line 77, in forward', "    raise ValueError('bad')"]
    log = "\n".join([*first, "    main()", *deep(frames), *last, "ValueError: bad", ""])
    verdict = diagnose([log.encode()])
    inner = Frame(file="/srv/model.py", line=77, function="forward")
    assert (verdict.frame, verdict.in_app_frame, verdict.line) == (inner, inner, 1)
    assert verdict.traceback.startswith("\n".join(first))
    assert verdict.traceback.endswith("ValueError: bad")


def test_the_innermost_line_of_a_deep_dump_is_told() -> None:
    """faulthandler prints the innermost frame first."""
    calls = [text for text in deep(1900) if text.startswith("  File")]
    log = "\n".join(
        [
            "Fatal Python error: Segmentation fault",
            "",
            "Current thread 0x00007f2d (most recent call first):",
            '  File "/srv/model.py", line 77 in forward',
            *(text.replace(", in", " in") for text in calls),
            '  File "/srv/train.py", line 3 in <module>',
            "",
        ]
    )
    inner = Frame(file="/srv/model.py", line=77, function="forward")
    assert diagnose([log.encode()]).in_app_frame == inner
