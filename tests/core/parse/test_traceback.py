"""Stacks as printed -> frames and exceptions."""

import pytest

from orchestrator.core.findings import Frame
from orchestrator.core.parse.stack_lines import exception_of, frame_of
from orchestrator.core.parse.stack_parts import Kind, Offer
from orchestrator.core.parse.traceback import Block

FRAME = '  File "/srv/a.py", line 3, in f'


def fed(kind: Kind, *lines: str) -> Block:
    block = Block(kind)
    for line in lines:
        block.offer(line)
    return block


def test_chain_keeps_its_parts_in_order() -> None:
    """The first exception and the one it caused are two parts, joined by the sentence."""
    block = fed(
        Kind.PYTHON,
        FRAME,
        "    x()",
        "KeyError: 'a'",
        "",
        "The above exception was the direct cause of the following exception:",
        "",
        "Traceback (most recent call last):",
        '  File "/srv/b.py", line 9, in g',
        "RuntimeError: could not",
    )
    assert [part.exception.type for part in block.parts if part.exception] == [
        "KeyError",
        "RuntimeError",
    ]
    assert block.parts[1].link.startswith("The above exception")


def test_inner_traceback_of_a_worker_is_part_of_the_block() -> None:
    """What a DataLoader worker raised stands inside of what the main process raised."""
    block = fed(
        Kind.PYTHON,
        FRAME,
        "KeyError: Caught KeyError in DataLoader worker process 0.",
        "Original Traceback (most recent call last):",
        '  File "/srv/data.py", line 6, in __getitem__',
        "KeyError: 'labels'",
    )
    assert block.parts[-1].inner
    assert block.parts[-1].frames == [Frame(file="/srv/data.py", line=6, function="__getitem__")]


def test_step_behind_the_exception_is_not_of_the_block() -> None:
    """The next ordinary line ends it."""
    block = fed(Kind.PYTHON, FRAME, "ValueError: x")
    assert block.complete
    assert block.offer("step 9 loss 1.0") is Offer.ENDED


def test_faulthandler_has_its_innermost_frame_first() -> None:
    """The current thread's first frame is where it happened."""
    block = fed(
        Kind.FAULT,
        "Current thread 0x00007f (most recent call first):",
        '  File "/srv/a.py", line 3 in f',
        '  File "/srv/a.py", line 9 in <module>',
    )
    assert block.part.frames[0] == Frame(file="/srv/a.py", line=3, function="f")


def test_box_of_rich_is_read() -> None:
    """Frames inside a box, a path folded over two of its lines too."""
    bar = "\u2502"
    block = fed(
        Kind.RICH,
        f"{bar} /very/long/path/to/                     {bar}",
        f"{bar} train.py:12 in main                     {bar}",
        f"{bar}   11 def main():                        {bar}",
        "\u2570" + "\u2500" * 40 + "\u256f",
        "RuntimeError: x",
    )
    assert block.part.frames == [
        Frame(file="/very/long/path/to/train.py", line=12, function="main")
    ]
    assert block.complete


@pytest.mark.parametrize(
    ("line", "kind", "message"),
    [
        ("ValueError: bad", "ValueError", "bad"),
        ("torch.cuda.OutOfMemoryError: CUDA out", "torch.cuda.OutOfMemoryError", "CUDA out"),
        ("KeyboardInterrupt", "KeyboardInterrupt", ""),
        ("_queue.Empty", "_queue.Empty", ""),
        ("AssertionError", "AssertionError", ""),
        (
            "ray.exceptions.RayTaskError(ValueError): x",
            "ray.exceptions.RayTaskError(ValueError)",
            "x",
        ),
    ],
)
def test_exception_line_is_told(line: str, kind: str, message: str) -> None:
    """Type and message, with and without a colon."""
    found = exception_of(line)
    assert found is not None
    assert (found.type, found.message) == (kind, message)


@pytest.mark.parametrize("line", ["Epoch: 3", "step: 3", "loss: 0.2", "a b: c", "", "Loss: nan"])
def test_ordinary_line_is_no_exception(line: str) -> None:
    """A metric with a colon is not taken for one."""
    assert exception_of(line) is None


def test_frame_without_a_function_is_a_module() -> None:
    """As a SyntaxError names its place."""
    assert frame_of('  File "/srv/a.py", line 3') == Frame(
        file="/srv/a.py", line=3, function="<module>"
    )
