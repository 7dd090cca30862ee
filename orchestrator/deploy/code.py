"""The code of releases as it is kept here, so that two of them can be compared without a target.

Owns one file a release in the state folder: its manifest, and the text of its small files. The
comparison says which files changed, and how their lines did.
"""

import difflib
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import zstandard

from orchestrator.deploy.bundle import Bundle
from orchestrator.probe import manifest as wire

MAX_TEXT_BYTES = 128 * 1024
MAX_TEXTS_BYTES = 8 * 1024 * 1024
MAX_DIFF_LINES = 400
_SUFFIX = ".code.zst"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """One path that is not what it was."""

    path: str
    kind: str
    """`added`, `removed` or `changed`."""
    lines_added: int | None = None
    """None where the text was not kept: a large or binary file."""
    lines_removed: int | None = None

    def __str__(self) -> str:
        if self.lines_added is None:
            return f"{self.path} {self.kind}"
        return f"{self.path} {self.kind} (+{self.lines_added} -{self.lines_removed})"


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeDifference:
    """What changed from one release to another."""

    files: tuple[FileChange, ...]
    diff: str
    """Unified, cut after MAX_DIFF_LINES lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Code:
    """A release as it is kept."""

    contents: dict[str, tuple[str, int, str]]
    """Path -> kind, mode and content, as in the manifest."""
    texts: dict[str, str]
    """SHA-256 -> text."""


def keep(folder: Path, bundle: Bundle) -> None:
    """Keep a release's code in `folder`, once. Blocks; OSError where the disk takes no more."""
    path = folder / f"{bundle.digest}{_SUFFIX}"
    if path.exists():
        return
    entries = [tuple(entry) for entry in bundle.manifest.entries]
    document = {"v": 1, "entries": entries, "texts": dict(_texts(bundle))}
    packed = zstandard.compress(json.dumps(document).encode("ascii"), 3)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_bytes(packed)
    part.rename(path)


def kept(folder: Path) -> tuple[str, ...]:
    """Digests of the releases whose code is kept."""
    return tuple(sorted(path.name.removesuffix(_SUFFIX) for path in folder.glob(f"*{_SUFFIX}")))


def forget(folder: Path, digest: str) -> None:
    """Keep a release's code no longer."""
    (folder / f"{digest}{_SUFFIX}").unlink(missing_ok=True)


def compare(folder: Path, before: str, after: str) -> CodeDifference | None:
    """What changed between two releases; None where the code of one was not kept. Blocks."""
    if before == after:
        return CodeDifference(files=(), diff="")
    old, new = _load(folder, before), _load(folder, after)
    if old is None or new is None:
        return None
    files: list[FileChange] = []
    lines: list[str] = []
    for path in sorted({*old.contents, *new.contents}):
        if old.contents.get(path) == new.contents.get(path):
            continue
        change, diff = _changed(path, old, new)
        files.append(change)
        lines += diff[: MAX_DIFF_LINES - len(lines)]
    return CodeDifference(files=tuple(files), diff="\n".join(lines))


def _changed(path: str, old: _Code, new: _Code) -> tuple[FileChange, list[str]]:
    was, now = old.contents.get(path), new.contents.get(path)
    kind = "added" if was is None else "removed" if now is None else "changed"
    before, after = _text(was, old), _text(now, new)
    if before is None or after is None:
        return FileChange(path=path, kind=kind), []
    diff = list(
        difflib.unified_diff(
            before.splitlines(), after.splitlines(), f"a/{path}", f"b/{path}", lineterm="", n=2
        )
    )
    added = sum(1 for line in diff[2:] if line.startswith("+"))
    removed = sum(1 for line in diff[2:] if line.startswith("-"))
    change = FileChange(path=path, kind=kind, lines_added=added, lines_removed=removed)
    return change, diff


def _text(entry: tuple[str, int, str] | None, code: _Code) -> str | None:
    """The text of an entry, empty where it is not there; None where it is not known."""
    if entry is None or entry[2] == wire.EMPTY_SHA256:
        return ""
    return code.texts.get(entry[2]) if entry[0] == wire.FILE else None


def _texts(bundle: Bundle) -> Iterator[tuple[str, str]]:
    """The small text files of a bundle, as they were when it was made."""
    left = MAX_TEXTS_BYTES
    for entry in sorted(bundle.manifest.entries, key=lambda entry: entry.size):
        if entry.kind != wire.FILE or not 0 < entry.size <= min(MAX_TEXT_BYTES, left):
            continue
        try:
            content = Path(os.fsdecode(bundle.sources[entry.content])).read_bytes()
        except (OSError, KeyError):
            continue
        text = _as_text(content)
        # A file that was edited meanwhile is not the one that was shipped.
        if (
            text is not None
            and len(content) == entry.size
            and hashlib.sha256(content).hexdigest() == entry.content
        ):
            left -= entry.size
            yield entry.content, text


def _as_text(content: bytes) -> str | None:
    try:
        return None if b"\0" in content else content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _load(folder: Path, digest: str) -> _Code | None:
    try:
        packed = (folder / f"{digest}{_SUFFIX}").read_bytes()
        document = json.loads(zstandard.decompress(packed))
    except (OSError, ValueError, zstandard.ZstdError):
        return None
    entries = [wire.Entry(*row) for row in document["entries"] if row[1] != wire.FOLDER]
    contents = {entry.path: (entry.kind, entry.mode, entry.content) for entry in entries}
    return _Code(contents=contents, texts=document["texts"])
