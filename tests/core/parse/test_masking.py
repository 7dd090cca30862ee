"""Secrets in a run's output are covered wherever chunks are cut."""

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.parse.masking import Mask

SECRETS = ("hf_PZ3kQ9vWxT7", "hunter22", "aaaaaa")
WORDS = st.sampled_from([*SECRETS, "hf_PZ", "hunter", "aaa", "step 1\n", " ", "\x1b[31m", "z"])


@given(words=st.lists(WORDS, max_size=12), cuts=st.lists(st.integers(0, 120), max_size=8))
def test_no_value_shows_however_the_output_is_cut(words: list[str], cuts: list[int]) -> None:
    """Its length stays, so that offsets do; what is no part of a value stays too."""
    text = "".join(words).encode()
    mask, out, at = Mask(SECRETS), b"", 0
    for cut in sorted({*(cut for cut in cuts if cut < len(text)), len(text)}):
        out += mask.cover(at, text[at:cut])
        at = cut
    assert len(out) == len(text)
    assert not any(secret.encode() in out for secret in SECRETS)
    assert all(new in (old, ord("*")) for old, new in zip(text, out, strict=True))
    assert Mask(SECRETS).cover(0, text).replace(b"*", b"") == _without_values(text)


def _without_values(text: bytes) -> bytes:
    covered = bytearray(text)
    for value in (secret.encode() for secret in SECRETS):
        for at in range(len(text)):
            if text.startswith(value, at):
                covered[at : at + len(value)] = b"*" * len(value)
    for value in (secret.encode() for secret in SECRETS):
        for size in range(4, len(value)):
            if text.endswith(value[:size]):
                covered[-size:] = b"*" * size
    return bytes(covered).replace(b"*", b"")


def test_what_follows_a_gap_completes_nothing() -> None:
    """A value's rest is covered only where it really follows."""
    mask = Mask(["hunter22"])
    assert mask.cover(0, b"x hunter") == b"x ******"
    assert mask.cover(100, b"22 left") == b"22 left"
    assert mask.cover(107, b"hunter") == b"******"
    assert mask.cover(113, b"22 left") == b"** left"


def test_short_values_and_none_cover_nothing() -> None:
    """A value of three characters would take innocent text with it."""
    assert Mask(["abc", ""]).cover(0, b"abc abc") == b"abc abc"
    assert Mask([]).cover(0, b"text") == b"text"


def test_a_value_of_several_lines_is_covered_as_a_terminal_and_as_json_show_it() -> None:
    """A terminal ends lines with a return as well, and quoted text has no line ends at all."""
    mask = Mask(["first-line\nsecond-line"])
    assert mask.cover(0, b"first-line\r\nsecond-line\r\n") == b"*" * 23 + b"\r\n"
    assert (
        mask.cover(25, rb"{'key': 'first-line\nsecond-line'}") == b"{'key': '" + b"*" * 23 + b"'}"
    )
    assert mask.cover(60, b"first-line\nsecond-line\n") == b"*" * 22 + b"\n"
