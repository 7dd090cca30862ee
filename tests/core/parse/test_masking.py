"""Secrets in a run's output are covered wherever chunks are cut, and however they are written."""

import base64
import json
import random
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.parse.masking import Mask, covered, covered_text
from orchestrator.core.parse.secret_search import known

SECRETS = ("hf_PZ3kQ9vWxT7", "hunter22", "bababa")
WORDS = st.sampled_from([*SECRETS, "hf_PZ", "hunter", "bab", "step 1\n", " ", "\x1b[31m", "z"])
ODD = "p\u00e4ss\"w\\o/r d+&'$\u20ac\U0001f512!"
"""Every letter that some way of writing escapes."""
PLAIN = "s3cretValueOfATest42"
FORMS: dict[str, Callable[[str], str]] = {
    "as it is": lambda value: value,
    "JSON": lambda value: json.dumps({"token": value}),
    "JSON of any letters": lambda value: json.dumps({"token": value}, ensure_ascii=False),
    "JSON in JSON": lambda value: json.dumps(json.dumps([value])),
    "JSON in JSON in JSON": lambda value: json.dumps(json.dumps(json.dumps([value]))),
    "repr": lambda value: repr({"token": value}),
    "ascii": lambda value: ascii([value]),
    "repr of bytes": lambda value: repr(value.encode()),
    "repr in JSON": lambda value: json.dumps(repr([value])),
    "percent": quote,
    "percent, all of it": lambda value: quote(value, safe=""),
    "a form's field": quote_plus,
    "percent twice": lambda value: quote(quote(value, safe="")),
    "every letter percent": lambda value: "".join(f"%{byte:02x}" for byte in value.encode()),
    "a URL": lambda value: f"https://me:{quote(value, safe='')}@host.example/x?y=1",
    "a URL in JSON": lambda value: json.dumps(f"https://me:{quote(value)}@host/x"),
    "hex": lambda value: value.encode().hex(),
    "base64": lambda value: base64.b64encode(value.encode()).decode(),
    "base64 behind one": lambda value: base64.b64encode(b"x" + value.encode() + b"yz").decode(),
    "base64 behind two": lambda value: base64.b64encode(b"xy" + value.encode() + b"z").decode(),
    "base64 of URLs": lambda value: base64.urlsafe_b64encode(value.encode()).decode(),
    "Basic": lambda value: (
        "Authorization: Basic " + base64.b64encode(f"user:{value}".encode()).decode()
    ),
    "base64 in lines": lambda value: (
        base64.encodebytes(b"-" * 50 + value.encode()).decode().rstrip()
    ),
    "wrapped": lambda value: f"{value[:9]}\n{value[9:]}",
    "wrapped by a terminal": lambda value: f"{value[:9]}\r\n{value[9:]}",
    "wrapped in a box": lambda value: f"\u2502 {value[:9]}   \u2502\n\u2502 {value[9:]} \u2502",
    "wrapped with its rank": lambda value: f"{value[:9]}\n[rank0]: {value[9:]}",
    "coloured": lambda value: f"\x1b[1m{value[:3]}\x1b[0;31m{value[3:9]}\x1b[0m{value[9:]}",
    "a colour for each letter": lambda value: "".join(
        f"\x1b[3{n % 8}m{c}" for n, c in enumerate(value)
    ),
    "with a link": lambda value: f"{value[:5]}\x1b]8;;http://x\x07{value[5:]}\x1b]8;;\x1b\\",
    "colours in JSON": lambda value: json.dumps(f"{value[:6]}\x1b[0m{value[6:]}"),
    "wrapped in JSON": lambda value: json.dumps(f"{value[:6]}\n{value[6:]}"),
    "coloured and wrapped": lambda value: f"{value[:6]}\x1b[0m\r\n\x1b[31m{value[6:]}",
}


@pytest.mark.parametrize("value", [ODD, PLAIN])
@pytest.mark.parametrize("form", FORMS)
def test_a_value_is_covered_in_every_form_wherever_the_output_is_cut(form: str, value: str) -> None:
    """All of its letters are stars, what surrounds it stays, and so do lengths and lines."""
    written = FORMS[form](value)
    text = f"step 1 of 2\n{written}\nstep 2 of 2\n".encode()
    whole = covered(known([value]), text)
    places = [at for at, letter in enumerate(whole) if letter == ord("*") != text[at]]
    assert places, whole
    assert whole.startswith(b"step 1 of 2\n")
    assert whole.endswith(b"\nstep 2 of 2\n")
    assert b"\n\n" not in whole
    for cut in range(1, len(text)):
        mask = Mask([value])
        out = mask.cover(0, text[:cut]) + mask.cover(cut, text[cut:])
        shown = [at for at in places if out[at] != ord("*") and text[at] not in b"\r\n"]
        assert len(out) == len(text)
        # Of what was written before enough of it had come three letters of the value may show.
        assert all(at < cut for at in shown), (cut, out)
        assert not shown or FORMS["as it is"](value)[:4].encode() not in out, (cut, out)


@pytest.mark.parametrize("form", FORMS)
def test_letter_by_letter_it_is_covered_as_well(form: str) -> None:
    """A program that writes each letter by itself gives the value's end no chunk to stand in."""
    text = f"step 1\n{FORMS[form](PLAIN)}\nstep 2\n".encode()
    whole, mask = covered(known([PLAIN]), text), Mask([PLAIN])
    out = b"".join(mask.cover(at, text[at : at + 1]) for at in range(len(text)))
    stars = [at for at, letter in enumerate(whole) if letter == ord("*") != text[at]]
    assert sum(out[at] != ord("*") for at in stars) <= len(stars) // 4 + 3


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
    assert not any(secret.encode() in out.replace(b"\x1b[31m", b"") for secret in SECRETS)
    assert all(new in (old, ord("*")) for old, new in zip(text, out, strict=True))


@given(text=st.binary(max_size=300), seed=st.integers(0, 1000))
def test_bytes_without_a_value_stay(text: bytes, seed: int) -> None:
    """Whatever they are and however they are cut."""
    secret = f"{random.Random(seed).getrandbits(128):x}"
    cut, mask = len(text) // 2, Mask([secret, ODD, PLAIN])
    out = mask.cover(0, text[:cut]) + mask.cover(cut, text[cut:])
    assert out == text


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


def test_a_short_value_is_no_column_of_a_table() -> None:
    """Across lines only a value is known that is too long to come about by chance."""
    assert Mask(["1234"]).cover(0, b"1\n2\n3\n4\n") == b"1\n2\n3\n4\n"
    assert Mask(["1234"]).cover(0, b"x1234y 1\x1b[0m234") == b"x****y ********"


def test_a_value_of_several_lines_is_covered_as_a_terminal_and_as_json_show_it() -> None:
    """A terminal ends lines with a return as well, and quoted text has no line ends at all."""
    value = "first-line\nsecond-line"
    mask, stars = Mask([value]), b"*" * 10 + b"\r\n" + b"*" * 11
    assert mask.cover(0, b"first-line\r\nsecond-line\r\n") == stars + b"\r\n"
    assert (
        mask.cover(25, rb"{'key': 'first-line\nsecond-line'}") == b"{'key': '" + b"*" * 23 + b"'}"
    )
    assert covered_text(known([value]), f"{value}\n") == stars.decode().replace("\r", "") + "\n"


def test_a_line_of_a_key_is_covered_by_itself() -> None:
    """The lines that say that it is one stay: every key has them."""
    value = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG\n-----END KEY-----\n"
    search = known([value])
    assert covered_text(search, "got MIIEvQIBADANBgkqhkiG") == "got " + "*" * 20
    assert covered_text(search, "-----BEGIN KEY-----") == "-----BEGIN KEY-----"


def test_a_value_that_escapes_keep_open_over_several_chunks_is_covered_to_its_end() -> None:
    """Whatever a terminal is told between two halves of it, in however many pieces that comes."""
    chunks = (b"s3cr3t" + b"\x1b[0m" * 100, b"\x1b[0m" * 100, b"value99\n")
    mask, offset, shown = Mask(["s3cr3tvalue99"]), 0, b""
    for chunk in chunks:
        shown += mask.cover(offset, chunk)
        offset += len(chunk)
    assert b"value" not in shown
    assert len(shown) == offset


def test_a_scheme_at_the_end_of_a_chunk_is_nobodys_secret() -> None:
    """A receiver's URL is a value, and `http` the end of many a line."""
    mask = Mask(["https://hooks.example/abcdefgh"])
    assert mask.cover(0, b"see http\n") == b"see http\n"
    assert b"hooks" not in mask.cover(9, b"https://hooks.example/abcdefgh\n")


def test_a_value_of_odd_bytes_that_covers_half_a_letter_leaves_text() -> None:
    """An environment may hold bytes that are no UTF-8."""
    assert covered_text(known(["pass\udce9"]), "pass\u98db").startswith("*****")


@pytest.mark.parametrize(
    "text", [b"https://" + b" " * 200_000 + b"x", b"h\xc2\x9b]" * 20_000 + b"\x07ttps"]
)
def test_no_line_holds_the_search(text: bytes) -> None:
    """Blanks and torn escapes behind a value's first letters took the square of their number, which
    is minutes here."""
    assert covered(known(["https://hooks.example/abcdefgh"]), text) == text


def covered_json(values: list[str], line: bytes) -> bytes:
    """A line of metrics as it is kept: of the same length."""
    shown = Mask(values, of_json=True).cover(0, line)
    assert len(shown) == len(line)
    return shown


@pytest.mark.parametrize(
    ("value", "line", "shown"),
    [
        ("12345678", b'{"step": 3, "pin": 12345678}', b'{"step": 3, "pin": "******"}'),
        ("2345", b'{"loss": 0.123456, "step": 3}', b'{"loss": "******", "step": 3}'),
        ("-2.5e-07", b'{"lr": -2.5e-07}', b'{"lr": "******"}'),
        ('abcd"', b'{"note": "abcd", "step": 3}', b'{"note": "****", "step": 3}'),
        ('abcd"', rb'{"note": "abcd\"", "step": 3}', b'{"note": "******", "step": 3}'),
        ("abcd\\", rb'{"note": "abcd\"x"}', b'{"note": "******x"}'),
        ("nabcd", rb'{"note": "x\nabcd"}', b'{"note": "x******"}'),
        ("abcd\\u00", rb'{"note": "abcd\u00e9f"}', b'{"note": "**********f"}'),
        ("abcd\udcc3", b'{"note": "abcd\xc3\xa9f"}', b'{"note": "******f"}'),
        ("true", b'{"ok": true, "step": 3}', b'{"ok": "**", "step": 3}'),
        ('a": 1', b'{"a": 1}', b'{"*": 0}'),
        ("abcd", b"abcd{torn", b"****{torn"),
        ("abcd", b'{"abcd": 1}\nabcd\n{"x": "abcd"}', b'{"****": 1}\n****\n{"x": "****"}'),
    ],
)
def test_a_line_of_metrics_stays_json_whatever_is_covered_in_it(
    value: str, line: bytes, shown: bytes
) -> None:
    """Digits that are a value, one that ends in a quote or in half an escape: the step is read."""
    assert covered_json([value], line + b"\n") == shown + b"\n"


@given(
    st.text(st.sampled_from('ab12"\\\n\u00e9{}:,. -e'), min_size=4, max_size=8),
    st.dictionaries(
        st.text(st.sampled_from('ab"1'), max_size=3),
        st.one_of(
            st.text(st.sampled_from('ab12"\\\n\u00e9{}:, '), max_size=20),
            st.floats(),
            st.integers(),
            st.booleans(),
            st.none(),
        ),
        max_size=4,
    ),
    st.booleans(),
    st.integers(0, 60),
)
def test_no_value_makes_a_line_torn_and_none_stays(
    value: str, record: dict[str, object], is_ascii: bool, at: int
) -> None:
    """Whatever the two are made of; as a text of its own no value is left."""
    line = json.dumps({**record, "own": value}, ensure_ascii=is_ascii).encode()
    begun = line[at : at + len(value)].decode("utf-8", "surrogateescape")
    for one in (value, begun):
        shown = json.loads(covered_json([one], line + b"\n"))
        assert value not in shown.values() or one != value


@pytest.mark.parametrize("one", [PLAIN + " \\n", 12345678], ids=["a text", "numbers"])
def test_a_value_without_end_in_one_line_of_metrics_takes_no_more_than_a_pass(
    one: str | int,
) -> None:
    """Half a MiB of nothing else is covered in seconds, and stays JSON; it was hours."""
    times = (1 << 19) // len(str(one))
    line = json.dumps({"a": one * times if isinstance(one, str) else [one] * times}).encode()
    shown = Mask([PLAIN, "12345678"], of_json=True).cover(0, line)
    assert len(shown) == len(line)
    assert json.loads(shown).keys() == {"a"}
    assert not any(value in shown for value in (PLAIN.encode(), b"12345678"))
