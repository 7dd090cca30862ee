"""How an op of the probe fails. Stdlib only and Python 3.10."""

from __future__ import annotations


class OpError(Exception):
    """An op that failed on purpose; `type` names the daemon's exception, `remedy` what to do."""

    def __init__(self, type: str, message: str, remedy: str | None = None) -> None:  # noqa: A002  the word of the wire
        super().__init__(message)
        self.type = type
        self.message = message
        self.remedy = remedy
