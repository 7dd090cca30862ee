"""Text that is to leave the machine -> the same text without what looks like a secret.

Owns the shapes of tokens. What is a secret for sure is named by the caller, who alone knows values.
"""

import re
from collections.abc import Iterable

from orchestrator.core.parse.masking import as_text
from orchestrator.core.parse.secret_search import Search, known

REMOVED = "[secret removed]"
_SHAPES = re.compile(
    r"""
    hf_[A-Za-z0-9]{16,} | sk-[A-Za-z0-9_-]{16,} | gh[pousr]_[A-Za-z0-9]{20,}
    | github_pat_\w{20,} | glpat-[\w-]{16,} | xox[abeprs]-[\w-]{10,} | whsec_[A-Za-z0-9+/=_-]{10,}
    | (?:AKIA|ASIA)[A-Z0-9]{16} | AIza[\w-]{30,} | npm_[A-Za-z0-9]{30,} | pypi-[\w-]{40,}
    | eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{4,}
    | -----BEGIN\ [A-Z ]{0,30}PRIVATE\ KEY-----[^-]{0,10000}(?:-----END\ [A-Z ]{0,30}KEY-----)?
    """,
    re.VERBOSE,
)
_NAMED = re.compile(
    r"""(?ix)
    (?P<name>\b[\w.-]{0,40}(?:token|secret|passw(?:or)?d|passphrase|api_?key|access_?key|credential)
      s?\b["']?\s{0,3}(?:[:=]|=>)\s{0,3}["']?)
    (?P<value>(?!\[secret|[\d.,]+(?:\s|["',;]|$))[^\s"',;}{)(\]\[]{6,})
    """
)
_BEARER = re.compile(r"(?i)\b(?P<name>bearer|basic)\s+(?P<value>[A-Za-z0-9+/_.=~-]{8,})")
_IN_URL = re.compile(
    r"(?P<name>[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{0,100}:)(?P<value>[^\s/@]{3,200})@"
)


def redact(text: str, values: Iterable[str] = ()) -> tuple[str, int]:
    """The text without the values and without tokens, and how many places were removed."""
    text, count = _without(known(values), text)
    for pattern, new in (
        (_SHAPES, REMOVED),
        (_BEARER, rf"\g<name> {REMOVED}"),
        (_NAMED, rf"\g<name>{REMOVED}"),
        (_IN_URL, rf"\g<name>{REMOVED}@"),
    ):
        text, removed = pattern.subn(new, text)
        count += removed
    return text, count


def _without(search: Search, text: str) -> tuple[str, int]:
    raw = text.encode("utf-8", "surrogatepass")
    spans = sorted(search.spans(raw))
    if not spans:
        return text, 0
    parts, end, count = [], 0, 0
    for span in spans:
        if span.start >= end:
            parts += [raw[end : span.start], REMOVED.encode()]
            count += 1
        end = max(end, span.end)
    return as_text(b"".join([*parts, raw[end:]])), count
