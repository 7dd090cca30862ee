"""The fingerprint: equal for the same failure, different for another."""

from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.core.detect.engine import diagnose
from orchestrator.core.detect.fingerprint import normalise

WORDS = st.text("abcdefghij", min_size=3, max_size=8)
NUMBERS = st.integers(0, 10**9)


def log(
    *,
    prefix: str = "",
    root: str = "/srv/app",
    line: int = 88,
    size: int = 2,
    address: int = 4096,
    function: str = "step",
    kind: str = "ValueError",
    word: str = "shard",
    before: int = 3,
) -> bytes:
    """A log of one crash; every argument is something that may differ between two crashes."""
    lines = [f"step {i} loss 2.0" for i in range(before)]
    lines += [
        "Traceback (most recent call last):",
        f'  File "{root}/train.py", line {line}, in {function}',
        "    load()",
        f"{kind}: {word} {size} of {size * 2} at 0x{address:x} in /tmp/x{address}/part is bad",
    ]
    return "".join(f"{prefix}{item}\n" for item in lines).encode()


def print_of(data: bytes) -> str | None:
    return diagnose([data]).fingerprint


@settings(deadline=None, max_examples=30)
@given(
    rank=st.integers(0, 511),
    root=st.sampled_from(["/srv/app", "/home/me/x", "/srv/orch/releases/ab12/trainer"]),
    shift=st.integers(-5, 5),
    size=NUMBERS,
    address=NUMBERS,
    before=st.integers(0, 5),
)
def test_what_does_not_matter_leaves_it(
    rank: int, root: str, shift: int, size: int, address: int, before: int
) -> None:
    """Rank, host folder, a few lines of shift, sizes, addresses and time do not count."""
    other = log(
        prefix=f"[rank{rank}]: ",
        root=root,
        line=88 + shift,
        size=size,
        address=address,
        before=before,
    )
    assert print_of(other) == print_of(log())


@settings(deadline=None, max_examples=30)
@given(function=WORDS, word=WORDS, kind=st.sampled_from(["KeyError", "TypeError", "OSError"]))
def test_what_matters_changes_it(function: str, word: str, kind: str) -> None:
    """Another function, another message, another exception are another failure."""
    prints = {
        print_of(log()),
        print_of(log(function=f"f_{function}")),
        print_of(log(word=f"w_{word}")),
        print_of(log(kind=kind)),
    }
    assert len(prints) == 4


def test_numbers_hosts_and_paths_are_taken_out() -> None:
    """What is left is the sentence."""
    said = "Connection closed by peer [node-a]:4242 after 12.5 s, 3x5 and 4x2, 0x7ffe, /tmp/a/b"
    assert normalise(said) == (
        "Connection closed by peer <host> after # s, # and #, <address>, <tmp>"
    )
