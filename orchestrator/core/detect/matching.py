"""An exception's text or a line -> its signature.

Owns the order among signatures and the memory of what was asked before.
"""

from collections.abc import Iterator, Sequence

from orchestrator.core.detect.prefilter import Suspects
from orchestrator.core.detect.signatures import Signature
from orchestrator.core.findings import Frame

GENERIC = "python_error"
MAX_REMEMBERED = 512


class Matcher:
    """Holds the known signatures, the most telling first."""

    def __init__(self, signatures: Sequence[Signature]) -> None:
        self._signatures = tuple(signatures)
        self._by_line = tuple(item for item in self._signatures if item.lines or item.rests)
        self._lines = Suspects(
            [(*item.lines, *item.rests) for item in self._by_line], of_lines=True
        )
        self._says = Suspects([item.says for item in self._signatures])
        self._by_kind: dict[str, frozenset[int]] = {}
        """Positions of the signatures whose types match an exception's."""
        self._seen: dict[tuple[str, str, tuple[str, ...]], Signature] = {}
        self.generic = next(item for item in self._signatures if item.id == GENERIC)
        """Of every exception that no other is of."""

    def named(self, signature: str, title: str = "") -> Signature:
        """The signature of that id, and of that title where several have it; else the generic one."""
        faces = [item for item in self._signatures if item.id == signature]
        return next((item for item in faces if item.title == title), (*faces, self.generic)[0])

    def of_text(self, kind: str, said: str, frames: Sequence[Frame] = ()) -> Signature:
        """The signature of an exception: its dotted type, its whole text, and its stack."""
        places = tuple(f"{frame.file}:{frame.function}" for frame in frames)
        known = (kind, said, places)
        if known not in self._seen:
            if len(self._seen) > MAX_REMEMBERED:
                self._seen.clear()
            self._seen[known] = self._search(kind, said, places)
        return self._seen[known]

    def _search(self, kind: str, said: str, places: Sequence[str]) -> Signature:
        by_kind = self._of_kind(kind)
        for index in sorted(by_kind.union(self._says.of(said))):
            item = self._signatures[index]
            if _void(item, said.partition("\n")[0]) or not _in_frames(item, places):
                continue
            says = item.matcher("says")
            if index in by_kind or (says and says.search(said)):
                return item
        return self.generic

    def _of_kind(self, kind: str) -> frozenset[int]:
        if kind not in self._by_kind:
            if len(self._by_kind) > MAX_REMEMBERED:
                self._by_kind.clear()
            matchers = [item.matcher("types") for item in self._signatures]
            self._by_kind[kind] = frozenset(
                index for index, types in enumerate(matchers) if types and types.search(kind)
            )
        return self._by_kind[kind]

    def of_line(self, text: str, whole: str) -> Iterator[Signature]:
        """The signatures that a line outside of every block is of; `whole` is it with its prefix."""
        for index in self._lines.of(whole):
            item = self._by_line[index]
            lines = item.matcher("lines")
            if lines is None or _void(item, text):
                continue
            if lines.search(text) or (item.whole_lines and lines.search(whole)):
                yield item


def _void(item: Signature, text: str) -> bool:
    unless = item.matcher("unless")
    return unless is not None and unless.search(text) is not None


def _in_frames(item: Signature, places: Sequence[str]) -> bool:
    frames = item.matcher("frames")
    return frames is None or any(frames.search(place) for place in places)
