"""What a terminal was sent, as the lines a person saw: escapes, carriage returns, prefixes.

Owns the cleaning of one line and the reading of what stands in front of it (rank, pid, time,
log level). Knows nothing of tracebacks, and never looks at more than one line.
"""

import re
from typing import NamedTuple

MAX_LINE_CHARS = 16_384
MAX_SEGMENTS = 6

_ESCAPE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,2000}(?:\x07|\x1b\\)?|[PX^_][^\x1b]{0,2000}\x1b\\|[()#][0-9A-Za-z]|[ -~])"
)
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""Controls in either form, what turns the direction of a line or ends it, what is not seen at all."""
_MARKS = (
    "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe00-\ufe0f\ufe20-\ufe2f]"
)
_PILED = re.compile(f"({_MARKS}{{8}}){_MARKS}+")
"""More marks on one letter than any script has: they would reach over the lines around it."""
_BAR = re.compile(
    r"^[^|]{0,120}?\d{1,3}%\|[^|]{0,400}\| *[\d.?]+[kMG]?/[\d.?]+[kMG]? \[[^\]]{0,200}\]"
)
"""A tqdm bar, whatever was printed right behind it."""


def clean(raw: bytes) -> list[str]:
    """The texts that one line of raw output showed, one for each carriage return, the last last.

    A progress bar redraws itself thousands of times within one line: only the first and the
    newest few are kept. Escapes and control characters are gone, tabs stay.
    """
    text = raw[: 8 * MAX_LINE_CHARS].decode("utf-8", "replace")
    plain = text.rstrip()
    if plain.isprintable() and len(plain) <= MAX_LINE_CHARS and "%|" not in plain:
        return [plain]  # as nearly all are
    if "\x1b" in text:
        text = _ESCAPE.sub("", text)
    parts = [part for part in text.split("\r") if part and not part.isspace()]
    if len(parts) > MAX_SEGMENTS:
        parts = parts[:1] + parts[1 - MAX_SEGMENTS :]
    return [_tidy(part) for part in parts] or [""]


def _tidy(text: str) -> str:
    text = _CONTROL.sub("", text[:MAX_LINE_CHARS]).replace("\n", " ").rstrip()
    if "%|" in text:
        bar = _BAR.match(text)
        if bar and text[bar.end() :].strip():
            return text[bar.end() :]
    return text


def printable(text: str) -> str:
    """The text with nothing left that moves a cursor, colours, turns its order or is not seen."""
    if text.isascii() and text.isprintable():
        return text
    return _PILED.sub(r"\1", _UNSEEN.sub("", _ESCAPE.sub("", text)))


def one_line(text: str) -> str:
    """The printable text on one line, tabs as blanks."""
    plain = printable(text)
    return plain.replace("\n", " ").expandtabs(8) if "\t" in plain or "\n" in plain else plain


class Prefix(NamedTuple):
    """What stands in front of a line's own text."""

    width: int
    """Characters before the text."""
    key: str = ""
    """Who speaks: the same for all lines of one rank or actor, without times and levels."""
    rank: int | None = None
    level: str = ""
    """`D I W E C` where a logger wrote the line."""
    native: bool = False
    """By torch's or glog's logger, which prefixes every line of a message."""


NO_PREFIX = Prefix(0)

_RANK = re.compile(
    r"""\[(?:rank|Rank|RANK|default|local_rank)[ :=_]?(?P<a>\d{1,5})\]:?\ ?
      |\[(?P<b>\d{1,4})\]:\ ?
      |[A-Za-z][\w.-]{0,60}\d:\ (?=\[(?:rank|default)\d)
      |\[\d+,(?P<c>\d{1,5})\]<std(?:err|out)>:\ ?
      |(?:\[?)(?:rank|Rank|RANK)[ _:=-]?(?P<d>\d{1,5})\]?\ ?(?:\||:)\ ?
      |(?P<e>\d{1,4}):\ (?=\S|\ |$)
      |\((?P<actor>[A-Za-z_][\w.:]*\ (?:\(?rank=\d+\)?,?\ )?pid=\d+(?:,\ ip=[\w.:]+)?)\)\ ?
      |(?P<host>[A-Za-z][\w.-]{0,60}?[-_]?\d{1,4})\ *\|\ ?
      |\[(?P<pod>[A-Za-z][\w./-]{0,80}?-\d{1,4}(?:/[\w-]+)?)\]\ ?
      |\[(?P<node>[A-Za-z][\w.-]{0,60}):(?P<f>\d{1,3})\]:?\ ?""",
    re.VERBOSE,
)
_CLOCK = re.compile(
    r"""\[?\d{4}[-/]\d\d[-/]\d\d[T\ _]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|\ ?[+-]\d\d:?\d\d)?\]?(?:\ ?[|:-]\ |:?\ |\t|$|(?=\[))
      |\[(?:\d\d/\d\d/\d\d\ )?\d\d:\d\d:\d\d(?:[.,]\d{1,6})?\]\ ?
      |\d\d:\d\d:\d\d(?:[.,]\d{1,6})?\ (?:\|\ |-\ )?
      |(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\ +\d{1,2}\ \d\d:\d\d:\d\d\ \S{1,60}\ [\w./-]{1,60}(?:\[\d+\])?:\ """,
    re.VERBOSE,
)
_LEVEL = re.compile(
    r"""(?P<glog>[VDIWEFC])\d{4}\ \d\d:\d\d:\d\d\.\d{1,9}\ +\d+\ [^\]\s]{1,200}:\d+\]\ ?(?:\[[\d/_!]+\]\ ?)*
      |\[[DIWEF]\d{3,4}\ \d\d:\d\d:\d\d\.\d{1,9}\ [\w./+-]{1,200}:\d+\]\ ?
      |\[?(?P<word>DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)\]?(?::[\w.]{1,80}:|\ *(?:\||-|:)\ ?|\ \[[^\]]{1,100}\]:?\ |\]\ ?|\ +(?=\S))(?:(?!\S*(?:Error|Exception|Interrupt|Exit)\b|(?:[\w.]*\.)?[A-Z]\w*:|\S+:\ error:)[\w.]{1,80}(?::\w{1,60})?(?::\d+)?(?:\ -\ |:\ |\ \|\ ))?
      |(?:-\ )?[\w.]{1,80}\ -\ (?P<named>DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)\ -\ """,
    re.VERBOSE,
)
_COLUMN = re.compile(r" {10,30}(DEBUG|INFO|WARNING|ERROR|CRITICAL) +(?=\S)")
"""A level in its column, the time left out as it is that of the line above (rich's log handler)."""
_STREAM = re.compile(r"\[[A-Za-z][\w.:/-]{0,40}\]\ ?(?:-\ |:\ )?")
"""A logger's or stream's name in brackets, behind a time."""
_CODES = {"F": "C", "V": "D"}
_TABLE_INDEX = re.compile(r"\[\d+\]: ?$")
"""A row number of torchrun's failure table, not a rank in front of a line."""


def read_prefix(text: str) -> Prefix:
    """What stands in front of the line: any mixture of rank tags, times and log levels."""
    if not text or text[0] in " \t" or _TABLE_INDEX.match(text):
        column = _COLUMN.match(text) if text.startswith("          ") else None
        return Prefix(column.end(), level=column[1][0]) if column else NO_PREFIX
    position, key, rank, level, native = 0, "", None, "", False
    length = len(text)
    text += " "  # a prefix alone on its line has lost the blank behind it
    left = 6
    while left and not text[position : position + 1].isspace():
        left -= 1
        if (match := _CLOCK.match(text, position)) is not None:
            pass
        elif (match := _LEVEL.match(text, position)) is not None:
            found = match["glog"] or match["word"] or match["named"] or text[position + 1]
            level = level or _CODES.get(found[0], found[0])
            native = native or not (match["word"] or match["named"])
        elif _TABLE_INDEX.match(text, position):
            break
        elif (match := _RANK.match(text, position)) is not None:
            number = (
                match["a"] or match["b"] or match["c"] or match["d"] or match["e"] or match["f"]
            )
            if number is None or int(number) != rank:
                key += match.group().strip(" :|")
                rank = int(number) if number else rank
        elif position and (match := _STREAM.match(text, position)) is not None:
            pass
        if match is None or match.end() == position:
            break
        position = match.end()
    position = min(position, length)
    return Prefix(position, key, rank, level, native) if position else NO_PREFIX
