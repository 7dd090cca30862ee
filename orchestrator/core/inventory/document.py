"""YAML bytes -> plain values that remember their lines; knows nothing of what an inventory is.

Only mappings, lists and plain scalars come out. Refused: other tags, duplicate keys, recursive
aliases, a second document, and a document that aliases or nesting blow up.
"""

from dataclasses import dataclass, field

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

Location = tuple[str | int, ...]
"""Where a value stands: the keys and list indexes on the way to it."""

MAX_BYTES = 1 << 20
MAX_VALUES = 50_000
MAX_DEPTH = 40

_TAG = "tag:yaml.org,2002:"
_SCALARS = frozenset({"str", "int", "float", "bool", "null", "timestamp"})


class WrittenInt(int):
    """A whole number that still has the text it was written as."""

    written: str


class WrittenFloat(float):
    """A number that still has the text it was written as."""

    written: str


@dataclass(slots=True)
class Document:
    """The values of a document, the line of each, and what was wrong with its YAML."""

    tree: object = None
    lines: dict[Location, int] = field(default_factory=dict)
    faults: list[tuple[Location, int, str]] = field(default_factory=list)
    """Location, 1-based line and sentence of each fault."""

    def line(self, location: Location) -> int:
        """Line of the value, or of its nearest parent that is there."""
        while location not in self.lines and location:
            location = location[:-1]
        return self.lines.get(location, 1)


def read_document(text: bytes) -> Document:
    """Compose the YAML; faults are collected in the document, never raised."""
    document = Document()
    if len(text) > MAX_BYTES:
        document.faults.append(((), 1, f"is larger than {MAX_BYTES} bytes; an inventory is not"))
        return document
    try:
        source = text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        document.faults.append(((), line, "is not UTF-8 text; save the file as UTF-8"))
        return document
    try:
        root = YAML(typ="safe", pure=True).compose(source)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        document.faults.append(((), mark.line + 1 if mark else 1, f"is not YAML: {_reason(error)}"))
    except YAMLError:
        document.faults.append(((), _line_of_control(source), "holds a character YAML forbids"))
    except RecursionError:
        document.faults.append(((), 1, f"is nested deeper than {MAX_DEPTH} levels"))
    else:
        if root is not None:
            document.tree = _Reader(document).value(root, (), ())
    return document


def _reason(error: MarkedYAMLError) -> str:
    return ", ".join(part for part in (error.context, error.problem) if part)


def _line_of_control(source: str) -> int:
    for number, line in enumerate(source.split("\n"), start=1):
        if any(ord(char) < 32 and char not in "\t\r" for char in line):
            return number
    return 1


class _Reader:
    """Turns nodes into values; one use a document."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._count = 0

    def value(self, node: Node, location: Location, parents: tuple[int, ...]) -> object:
        self._document.lines.setdefault(location, node.start_mark.line + 1)
        self._count += 1
        if id(node) in parents:
            return self._refuse(node, location, "is an alias of something that contains it")
        if len(parents) > MAX_DEPTH:
            return self._refuse(node, location, f"is nested deeper than {MAX_DEPTH} levels")
        if self._count > MAX_VALUES:
            if self._count == MAX_VALUES + 1:
                self._refuse(node, (), f"makes more than {MAX_VALUES} values by its aliases")
            return None
        inside = (*parents, id(node))
        if isinstance(node, MappingNode) and node.tag == _TAG + "map":
            return self._mapping(node, location, inside)
        if isinstance(node, SequenceNode) and node.tag == _TAG + "seq":
            return [
                self.value(item, (*location, index), inside)
                for index, item in enumerate(node.value)
            ]
        if isinstance(node, ScalarNode) and _kind(node) in _SCALARS:
            return _scalar(node)
        return self._refuse(
            node, location, f"has the tag {_tag_text(node)}; only plain YAML is read"
        )

    def _refuse(self, node: Node, location: Location, sentence: str) -> object:
        """Note the fault; the value is then None."""
        self._document.faults.append((location, node.start_mark.line + 1, sentence))
        return None

    def _mapping(
        self, node: MappingNode, location: Location, parents: tuple[int, ...]
    ) -> dict[str, object]:
        found: dict[str, object] = {}
        merged: list[tuple[Node, Node]] = []
        for key_node, value_node in node.value:
            if key_node.tag == _TAG + "merge":
                merged += self._merged(value_node, location, parents)
            elif not isinstance(key_node, ScalarNode):
                self._refuse(key_node, location, "has a key that is not plain text")
            elif key_node.value in found:
                key = (*location, key_node.value)
                first = self._document.lines[key]
                self._refuse(key_node, key, f"is written twice; the first is on line {first}")
            else:
                self._add(found, key_node, value_node, location, parents)
        for key_node, value_node in merged:
            if key_node.value not in found:
                self._add(found, key_node, value_node, location, parents)
        return found

    def _add(
        self,
        found: dict[str, object],
        key_node: Node,
        value_node: Node,
        location: Location,
        parents: tuple[int, ...],
    ) -> None:
        place = (*location, str(key_node.value))
        self._document.lines[place] = key_node.start_mark.line + 1
        found[str(key_node.value)] = self.value(value_node, place, parents)

    def _merged(
        self, node: Node, location: Location, parents: tuple[int, ...]
    ) -> list[tuple[Node, Node]]:
        """Key and value nodes behind a `<<`, the earlier mapping winning."""
        sources = node.value if isinstance(node, SequenceNode) else [node]
        pairs: list[tuple[Node, Node]] = []
        for source in sources:
            if not isinstance(source, MappingNode) or id(source) in parents:
                self._refuse(node, location, "merges (<<) something that is not another mapping")
                continue
            pairs += [pair for pair in source.value if isinstance(pair[0], ScalarNode)]
        return pairs


def _kind(node: Node) -> str:
    """`int`, `str` ... of YAML's own tags; any other tag whole."""
    return str(node.tag).removeprefix(_TAG)


def _tag_text(node: Node) -> str:
    tag = str(node.tag)
    return "!!" + tag.removeprefix(_TAG) if tag.startswith(_TAG) else tag


def _scalar(node: ScalarNode) -> object:
    text = str(node.value)
    kind = _kind(node)
    try:
        if kind == "int":
            return _whole_number(text)
        if kind == "float":
            number = WrittenFloat(
                text.replace("_", "").replace(".inf", "inf").replace(".nan", "nan")
            )
            number.written = text
            return number
    except ValueError:
        return text
    if kind == "bool":
        return text.lower() in {"true", "yes", "on"}
    return None if kind == "null" else text


def _whole_number(text: str) -> WrittenInt:
    digits = text.replace("_", "")
    try:
        number = WrittenInt(digits, 0)
    except ValueError:
        number = WrittenInt(digits, 10)
    number.written = text
    return number
