"""The code of releases as it is kept here, so that two of them can be compared without a target.

Owns two files a release in the state folder: its entries, and the texts of its small files that no
release before it had. The comparison says which files changed, and how their lines did.
"""

import difflib
import hashlib
import itertools
import json
import os
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import zstandard

from orchestrator.deploy.bundle import Bundle
from orchestrator.probe import manifest as wire

MAX_TEXT_BYTES = 128 * 1024
MAX_TEXTS_BYTES = 8 * 1024 * 1024
MAX_DIFF_LINES = 400
_SUFFIX = ".code.zst"
_TEXTS = ".texts.zst"
_MOST_PACKS = 50
"""A release whose texts lie in more files than this gets them in one of its own."""


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


def keep(folder: Path, bundle: Bundle, base: Bundle | None = None) -> None:
    """Keep a release's code in `folder`, once. Blocks; OSError where the disk takes no more.

    `base`: a bundle that was kept before; what it has is not kept a second time.
    """
    path = folder / f"{bundle.digest}{_SUFFIX}"
    if path.exists():
        return
    packs = _packs(folder, base.digest) if base is not None else None
    had = base.sources if base is not None and packs is not None else {}
    texts = _texts(bundle, had)
    packs = packs or []
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if (first := next(texts, None)) is not None:
        packs = [*packs, bundle.digest]
        _write(folder / f"{bundle.digest}{_TEXTS}", _as_json(itertools.chain([first], texts)))
    head = json.dumps({"v": 2, "packs": packs})
    _write(path, itertools.chain([head], (f"\n{line}" for line in bundle.lines)))


def _as_json(texts: Iterable[tuple[str, str]]) -> Iterator[str]:
    """One object of them, in parts."""
    before = "{"
    for sha, text in texts:
        yield f"{before}{json.dumps(sha)}: {json.dumps(text)}"
        before = ", "
    yield "}"


def _write(path: Path, content: Iterable[str]) -> None:
    """Write ASCII in parts: thousands of texts as one took four times their size in memory."""
    part = path.with_suffix(f".{os.getpid()}.part")
    packing = zstandard.ZstdCompressor(level=1)
    with part.open("wb") as file, packing.stream_writer(file) as packed:
        for text in content:
            packed.write(text.encode("ascii"))
    part.rename(path)


def _unpacked(path: Path) -> bytes:
    """What was written; ZstdError or ValueError where it is damaged or cut."""
    unpacking = zstandard.ZstdDecompressor().decompressobj()
    content = unpacking.decompress(path.read_bytes())
    if not unpacking.eof:
        raise ValueError(f"{path} is cut")
    return content


def _packs(folder: Path, digest: str) -> list[str] | None:
    """Releases with which the texts of one are kept; None where it is not, or in too many."""
    read = _read(folder, digest)
    return read[0] if read is not None and len(read[0]) < _MOST_PACKS else None


def _read(folder: Path, digest: str) -> tuple[list[str], list[str]] | None:
    """Packs and lines of a release that is kept."""
    try:
        head, *lines = _unpacked(folder / f"{digest}{_SUFFIX}").decode("ascii").split("\n")
        document = json.loads(head)
    except (OSError, ValueError, zstandard.ZstdError):
        return None
    return (document["packs"], lines) if document["v"] == 2 else None


def kept(folder: Path) -> tuple[str, ...]:
    """Digests of the releases whose code is kept."""
    return tuple(sorted(path.name.removesuffix(_SUFFIX) for path in folder.glob(f"*{_SUFFIX}")))


def forget(folder: Path, digest: str) -> None:
    """Keep a release's code no longer, nor the texts that only it had."""
    (folder / f"{digest}{_SUFFIX}").unlink(missing_ok=True)
    needed = {pack for other in kept(folder) for pack in (_packs(folder, other) or ())}
    for path in folder.glob(f"*{_TEXTS}"):
        if path.name.removesuffix(_TEXTS) not in needed:
            path.unlink()


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


def _texts(bundle: Bundle, had: Container[str]) -> Iterator[tuple[str, str]]:
    """The small text files of a bundle, as they were when it was made."""
    left = MAX_TEXTS_BYTES
    wanted = [
        entry
        for entry in bundle.manifest.entries
        if 0 < entry.size <= MAX_TEXT_BYTES and entry.kind == wire.FILE and entry.content not in had
    ]
    for entry in sorted(wanted, key=lambda entry: entry.size):
        if entry.size > left:
            break
        try:
            path = bundle.sources[entry.content].path
            content = Path(os.fsdecode(path)).read_bytes()
        except OSError:
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
    read = _read(folder, digest)
    if read is None:
        return None
    packs, lines = read
    texts: dict[str, str] = {}
    for pack in packs:
        try:
            texts |= json.loads(_unpacked(folder / f"{pack}{_TEXTS}"))
        except (OSError, ValueError, zstandard.ZstdError):
            continue
    entries = (entry for entry in wire.entries_of(lines) if entry.kind != wire.FOLDER)
    contents = {entry.path: (entry.kind, entry.mode, entry.content) for entry in entries}
    return _Code(contents=contents, texts=texts)
