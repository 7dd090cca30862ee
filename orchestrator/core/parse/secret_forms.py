"""One secret value -> the ways in which programs write it: each a row of places with alternatives.

Owns the forms: text (as it is, escaped for JSON, Python, a shell, HTML or a URL, letter by letter,
since one value is often half escaped), base64 at each of its three alignments, and hex; and what
may stand between two places without making it another text. Must not: search.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

Places = tuple[tuple[bytes, ...], ...]
"""What may stand at each place of one form, the usual spelling first."""

MIN_VALUE_CHARS = 4
"""A shorter value would take innocent text with it, and protects nothing."""
WRAPPED_CHARS = 8
"""Values from this length on are known across the lines of wrapped text as well: of fewer letters,
one above the other, columns of a table are full."""
LINE_CHARS = 16
"""Each line of a value of several lines that is as long is a secret by itself."""

_SHORT = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"}
_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_OTHER_BASE64 = {ord("+"): (b"-", b"%2B", b"%2b"), ord("/"): (b"_", rb"\/", b"%2F", b"%2f")}
_NESTED = (1, 2, 4)
"""Text within text within text has so many backslashes for one."""

_BEGIN = rb"(?:\x1b|\xc2\x9b|\\u001[bB]|\\x1[bB]|\\033)"
_BAR = rb"(?:\||\xe2\x94\x82|\xe2\x94\x83)"
ESCAPE = (
    rb"(?:" + _BEGIN + rb"(?:\[[0-?]*[ -/]*[@-~]|[ -/]*[0-Z^-~]"
    rb"|\][^\x07\x1b\\\r\n\xc2]*(?:\x07|\x1b\\|\\u0007|\\x07)))"
)
"""What a terminal is told, also as JSON and Python write it."""
WRAP = (
    rb"(?:[ \t]*(?:" + _BAR + rb"[ \t]*)?(?:[\r\n]|\\r|\\n)+(?:\[[a-z]+\d+\]:)?"
    rb"[ \t]*(?:" + _BAR + rb"[ \t]*)?)"
)
"""The end of a line, with the frame of a box around the text and a rank's prefix."""


def forms(value: str) -> list[Places]:
    """Every form of a value that is long enough, and of its long lines; none of another."""
    if len(value) < MIN_VALUE_CHARS:
        return []
    found = [_text(value), *_coded(value.encode("utf-8", "surrogateescape"))]
    lines = value.split("\n")
    for line in lines if len(lines) > 1 else ():
        if len(line) >= LINE_CHARS and not line.startswith("-----"):
            found += [_text(line.rstrip("\r"))]
    return found


def between(places: Places) -> bytes:
    """The pattern of what may stand between two places of a form."""
    return rb"(?:" + ESCAPE + (rb"|" + WRAP if wraps(places) else b"") + rb")*"


def wraps(places: Places) -> bool:
    """Whether a form is long enough to be known across lines."""
    return len(places) >= WRAPPED_CHARS


def pattern(places: Places) -> bytes:
    """A regular expression of these places in a row, for any engine."""
    return between(places).join(
        rb"(?:" + rb"|".join(re.escape(one) for one in place) + rb")" for place in places
    )


def wire_forms(values: Iterable[str], most_chars: int) -> list[dict[str, Any]]:
    """The shorter forms of all values for who has not this file: texts of Latin-1, one a byte."""
    rows, left = sorted({form for value in values for form in forms(value)}, key=len), most_chars
    found = []
    for row in rows:
        left -= sum(len(one) + 4 for place in row for one in place)
        if left < 0:
            break
        places = [[one.decode("latin-1") for one in place] for place in row]
        found.append({"places": places, "between": between(row).decode("latin-1")})
    return found


def _text(value: str) -> Places:
    return tuple(tuple(dict.fromkeys(_letter(letter))) for letter in value)


def _letter(letter: str) -> Iterator[bytes]:
    raw = letter.encode("utf-8", "surrogateescape")
    yield raw
    for mark in ("%", "%25"):
        for code in ("{:02X}", "{:02x}"):
            yield "".join(mark + code.format(byte) for byte in raw).encode()
    if letter == " ":
        yield b"+"
    if letter in _HTML:
        yield from (_HTML[letter].encode(), b"&#x%x;" % ord(letter), b"&#%d;" % ord(letter))
    if letter == "'":
        yield from (rb"'\''", b"'\"'\"'")
    if letter == "\n":
        yield b"\r\n"
    for escaped in _escaped(letter, raw):
        for times in _NESTED:
            yield escaped.replace("\\", "\\" * times).encode()
            if letter in "\"'":  # the letter itself is escaped again, for the text around it
                yield ("\\" * (2 * times - 1) + letter).encode()


def _escaped(letter: str, raw: bytes) -> Iterator[str]:
    units = letter.encode("utf-16-be", "surrogatepass")
    pairs = [units[at : at + 2].hex() for at in range(0, len(units), 2)]
    for code in (str.lower, str.upper):
        yield "".join("\\u" + code(pair) for pair in pairs)
        yield "".join("\\x" + code(f"{byte:02x}") for byte in raw)
        if len(letter.encode("utf-32-be", "surrogatepass").lstrip(b"\0")) == 1:
            yield "\\x" + code(f"{ord(letter):02x}")
        elif len(pairs) > 1:
            yield "\\U" + code(f"{ord(letter):08x}")
    if letter in _SHORT:
        yield "\\" + _SHORT[letter]
    if letter == "\n":
        yield "\\r\\n"
    if letter.isascii() and not letter.isalnum() and letter.isprintable():
        yield "\\" + letter


def _coded(raw: bytes) -> Iterator[Places]:
    yield tuple(tuple(dict.fromkeys((b"%02x" % byte, b"%02X" % byte))) for byte in raw)
    for before in range(3):
        yield _base64(raw, before)


def _base64(raw: bytes, before: int) -> Places:
    """The value behind so many other bytes; letters that it shares with a neighbour count too."""
    known = "?" * 8 * before + "".join(f"{byte:08b}" for byte in raw)
    first = 8 * before // 6
    groups = [known[at : at + 6].ljust(6, "?") for at in range(6 * first, len(known), 6)]
    return tuple(
        tuple(
            spelling
            for number, letter in enumerate(_BASE64)
            if all(bit in ("?", want) for bit, want in zip(group, f"{number:06b}", strict=True))
            for spelling in (bytes([letter]), *_OTHER_BASE64.get(letter, ()))
        )
        for group in groups
    )
