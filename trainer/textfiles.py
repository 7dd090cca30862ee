"""Text present on every machine: Python's own sources, or the user's files.

A .jsonl file holds objects with `text`, or conversations as `messages`. It owns which files
exist and which are held out; it knows no tokens.
"""

import json
import sysconfig
import zlib
from pathlib import Path
from typing import Any


class CorpusError(ValueError):
    """A source of text that cannot be used; its text names the path and the remedy."""


Messages = list[dict[str, str]]
"""A conversation: objects with `role` and `content`."""
Sample = str | Messages


def read_texts(source: str, *, held_out: bool) -> list[str]:
    """The texts of `source`, without its conversations."""
    return [sample for sample in read_samples(source, held_out=held_out) if isinstance(sample, str)]


def read_samples(source: str, *, held_out: bool) -> list[Sample]:
    """What `source` holds, in a fixed order; a tenth of the files, or of one file, is held out.

    Raises CorpusError where there is nothing.
    """
    root = Path(sysconfig.get_paths()["stdlib"]) if source == "stdlib" else Path(source)
    if source == "stdlib":
        files = sorted(root.glob("*.py")) + sorted(root.glob("*/*.py"))
        files = [file for file in files if "site-packages" not in file.parts]
    elif root.is_dir():
        files = sorted(file for file in root.rglob("*") if file.is_file())
    else:
        files = [root]
    if len(files) == 1:
        texts = _texts_of(files[0])
        return texts[::10] if held_out else [t for i, t in enumerate(texts) if i % 10]
    chosen = [file for file in files if _is_held_out(file.relative_to(root)) == held_out]
    texts = [text for file in chosen for text in _texts_of(file) if text]
    if not texts:
        raise CorpusError(f"corpus.source: {source}: holds no text; give a file or folder of text")
    return texts


def _is_held_out(name: Path) -> bool:
    return zlib.crc32(name.as_posix().encode()) % 10 == 0


def _texts_of(file: Path) -> list[Sample]:
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise CorpusError(f"corpus.source: {file}: cannot be read ({error.strerror})") from error
    if file.suffix != ".jsonl":
        return [text]
    lines = [line for line in text.splitlines() if line.strip()]
    try:
        return [_sample(json.loads(line)) for line in lines]
    except (ValueError, KeyError, TypeError) as error:
        raise CorpusError(
            f"corpus.source: {file}: each line must be an object with `text`, or with `messages` "
            f"of `role` and `content` ({error!r})"
        ) from error


def _sample(line: dict[str, Any]) -> Sample:
    if "messages" not in line:
        return str(line["text"])
    messages = [{"role": str(m["role"]), "content": str(m["content"])} for m in line["messages"]]
    # The target answers anew: an answer that the conversation ends with is not used.
    while messages and messages[-1]["role"] == "assistant":
        messages.pop()
    if not messages:
        raise ValueError("a conversation without a question")
    return messages
