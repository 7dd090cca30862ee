"""From when on a log is wanted: a time -> the offset of a line's beginning. It reads the store."""

from collections.abc import Mapping

from orchestrator.core.errors import UsageError
from orchestrator.daemon.parts import Parts

LINE_BYTES = 64 * 1024


def offset_since(parts: Parts, run: str, attempt: int, query: Mapping[str, str]) -> int | None:
    """Where the lines begin that came at `since` (unix seconds) or later; None where not asked."""
    text = query.get("since")
    if not text:
        return None
    try:
        since = float(text)
    except ValueError as exc:
        raise UsageError(f"since={text}: not a time in unix seconds.") from exc
    logs = parts.store.logs
    offset = logs.offset_at(run, attempt, since)
    # A line whose end came later is a line of later.
    before = logs.read(run, attempt, max(0, offset - LINE_BYTES), min(offset, LINE_BYTES))
    return offset - (len(before) - (before.rfind(b"\n") + 1))
