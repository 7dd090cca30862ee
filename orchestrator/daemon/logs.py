"""The daemon's own log: JSON lines with stable event names, the human form on a terminal."""

import json
import logging
import logging.handlers
import sys
from collections.abc import Callable
from pathlib import Path

from orchestrator.clock import utc_text
from orchestrator.core.parse.terminal import one_line, printable

MAX_BYTES = 5 * 1024 * 1024
KEPT_FILES = 3
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def _facts(record: logging.LogRecord) -> dict[str, object]:
    return {key: value for key, value in vars(record).items() if key not in _STANDARD}


class _Covered(logging.Formatter):
    cover: Callable[[str], str] | None = None

    def covered(self, text: str) -> str:
        return text if self.cover is None else self.cover(text)


class _JsonLines(_Covered):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": utc_text(record.created),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **_facts(record),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return self.covered(json.dumps(line, default=str))


class _Human(_Covered):
    def format(self, record: logging.LogRecord) -> str:
        facts = " ".join(f"{key}={one_line(str(value))}" for key, value in _facts(record).items())
        text = f"{record.levelname.lower():8}{record.getMessage()} {facts}".rstrip()
        if record.exc_info:
            text = f"{text}\n{printable(self.formatException(record.exc_info))}"
        return self.covered(text)


def cover_with(cover: Callable[[str], str]) -> None:
    """From now on no line shows what `cover` covers."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, _Covered):
            handler.formatter.cover = cover


def set_up(file: Path) -> None:
    """Write to the file, and to stderr where a person looks at it."""
    lines = logging.handlers.RotatingFileHandler(
        file, maxBytes=MAX_BYTES, backupCount=KEPT_FILES, encoding="utf-8"
    )
    lines.setFormatter(_JsonLines())
    handlers: list[logging.Handler] = [lines]
    if sys.stderr.isatty():
        human = logging.StreamHandler(sys.stderr)
        human.setFormatter(_Human())
        handlers.append(human)
    logging.basicConfig(level=logging.INFO, handlers=handlers, force=True)
    for name in ("asyncssh", "aiohttp", "alembic", "sqlalchemy"):
        logging.getLogger(name).setLevel(logging.WARNING)
