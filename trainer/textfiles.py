"""Text present on every machine: Python's own sources, or the user's files.

It owns which files exist and which are held out; it knows no tokens.
"""

import json
import sysconfig
import zlib
from pathlib import Path


class CorpusError(ValueError):
    """A source of text that cannot be used; its text names the path and the remedy."""


def read_texts(source: str, *, held_out: bool) -> list[str]:
    """The texts of `source`, in a fixed order; a tenth of the files is held out.

    Raises CorpusError where there are none.
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


def _texts_of(file: Path) -> list[str]:
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise CorpusError(f"corpus.source: {file}: cannot be read ({error.strerror})") from error
    if file.suffix != ".jsonl":
        return [text]
    lines = [line for line in text.splitlines() if line.strip()]
    try:
        return [str(json.loads(line)["text"]) for line in lines]
    except (ValueError, KeyError, TypeError) as error:
        raise CorpusError(
            f"corpus.source: {file}: each line must be an object with `text` ({error!r})"
        ) from error
