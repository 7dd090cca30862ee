"""The stable id of "the same failure".

Owns the normalisation: what differs between ranks, hosts, days and sizes is taken out, what tells
two faults apart stays in. The algorithm is versioned; a change of it is a new version.
"""

import hashlib
import re

from orchestrator.core.findings import ExceptionText, Frame

VERSION = "v1"

_VOLATILE: tuple[tuple[str, re.Pattern[str], str], ...] = (
    ("0x", re.compile(r"0x[0-9a-fA-F]+"), "<address>"),
    ("-", re.compile(r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F-]{13,}"), "<uuid>"),
    ("/", re.compile(r"(?:/tmp|/var/tmp|/dev/shm|/run|/scratch)/[^\s'\",:)\]>]*"), "<tmp>"),
    ("torch_", re.compile(r"</?torch_[\w/]+>"), "<tmp>"),
    ("]:", re.compile(r"\[[A-Za-z][\w.-]*\]:\d+"), "<host>"),
    (
        "",
        re.compile(r"\b(?:on|from|host|peer|node) ['\"]?[A-Za-z][\w-]*\d[\w.-]*", re.IGNORECASE),
        "<host>",
    ),
    ("", re.compile(r"\b[0-9a-f]{7,64}\b"), "#"),
    ("", re.compile(r"\d+(?:[.,:]\d+)*(?:e[+-]?\d+)?"), "#"),
    ("", re.compile(r"\b(?:[KMGTP]i?B|bytes)\b"), "<bytes>"),
    ("#", re.compile(r"#(?:[ ,x]*#)+"), "#"),
)
"""What each of them must hold to match, the pattern, and what is put in its place."""


def normalise(message: str) -> str:
    """The message without numbers, addresses, PIDs, hosts and temporary paths."""
    for needle, pattern, word in _VOLATILE:
        message = message[:400]
        if needle in message:
            message = pattern.sub(word, message)
    return " ".join(message[:400].split())[:240]


def place(frame: Frame | None) -> str:
    """A frame as `file:function`: the file by its last two parts, without its line."""
    if frame is None:
        return ""
    parts = frame.file.replace("\\", "/").rstrip("/").split("/")
    return f"{'/'.join(parts[-2:]) if 'site-packages' in parts else parts[-1]}:{frame.function}"


def fingerprint(
    *,
    signature: str,
    exception: ExceptionText | None,
    frame: Frame | None,
    in_app_frame: Frame | None,
    text: str = "",
) -> str:
    """`v1:` and 16 hexadecimal digits; the same for the same failure on every rank, host and day.

    `text` counts only where there is no exception, as for a native death.
    """
    kind = exception.type.rpartition(".")[2] if exception else ""
    message = normalise(exception.message if exception else text)
    parts = (signature, kind, message, place(in_app_frame), place(frame))
    digest = hashlib.sha256("\x00".join(parts).encode("utf-8", "replace")).hexdigest()
    return f"{VERSION}:{digest[:16]}"
