"""Hostile inputs: real ones with bytes flipped, cut, doubled and spliced, and whole documents with
values of other types, other sizes and other names in their places.

Owns the pools and the mutations. Must not: know a reader.
"""

import json
import random
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
MOST_BYTES = 4096
MOST_TREE_BYTES = 32 * 1024
"""YAML takes ten microseconds a byte: beyond this only its length is measured."""
WORDS = (
    b"\x00",
    b"\xff\xfe",
    b"\x1b]52;c;AA==\x07",
    b"{" * 50,
    b"[" * 200,
    b'"',
    b"\r" * 40,
    b"../",
)
VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 1.5, 1e308, 10**400, -(10**30), 2**63, float("nan"), float("inf")),
    *("", "x", "../../etc/passwd", "/etc/passwd", "a\0b", "\ud800", "\x1b]52;c;AA==\x07\n\u202e"),
    *("x" * 3000, "e\u0301" * 200, "\U000e0041", [], {}, [[]], [None], {"a": 1}, [{}]),
)
FRAMES = (ROOT / "tests/probe/frames.golden.jsonl").read_bytes().splitlines()[:100]
BODIES = (
    {"job": "a", "env": {"A": "b", "C": 7}, "args": ["x"], "why": "w", "grace_s": 3, "count": 2},
    {"jobs": ["a"], "dry_run": True, "replace": False, "force": True, "cold_cache": False},
    {"target": "t", "what": "dflash:0.1", "take_pipe": True, "signature": "hang", "sink": "ops"},
    {"match": {"job": "a"}, "for_s": 60.0, "why": "x", "run_age_s": 7, "release": "4be1d0"},
    {"pid": 7, "start": 9, "command": "x", "good": "a", "bad": "b", "to": "d", "until_crash": True},
)


def seeds() -> list[bytes]:
    """Real inputs to begin with."""
    found = [(ROOT / "inventory.yaml").read_bytes(), *FRAMES]
    files = sorted((ROOT / "tests/captures").rglob("*"))
    small = [file for file in files if file.is_file() and file.stat().st_size < 200_000]
    found += [file.read_bytes()[:MOST_BYTES] for file in small]
    found += [json.dumps(body).encode() for body in BODIES]
    return [one for one in found if one]


def trees() -> dict[str, list[Any]]:
    """Whole documents by kind: frames as they are recorded, bodies, inventories."""
    files = [ROOT / "inventory.yaml", *sorted((ROOT / "tests/core/inventories").glob("*.yaml"))]
    inventories = []
    for file in files:
        try:
            inventories.append(json.loads(json.dumps(YAML(typ="safe").load(file.read_bytes()))))
        except Exception:  # noqa: BLE001  those that are bad on purpose are no seeds
            continue
    return {
        "frame": [json.loads(line) for line in FRAMES],
        "body": list(BODIES),
        "inventory": [one for one in inventories if isinstance(one, dict) and _is_small(one)],
    }


def _is_small(tree: Any) -> bool:
    """Aliases written out may be a thousand times as long as their file."""
    return len(json.dumps(tree)) <= MOST_TREE_BYTES


def mutated(rng: random.Random, pool: list[bytes]) -> bytes:
    """One hostile input, by its bytes."""
    text = bytearray(rng.choice(pool)[:MOST_BYTES])
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(text) + 1)
        match rng.randrange(5):
            case 0:
                text[at:at] = rng.choice(WORDS)
            case 1:
                del text[at : at + rng.randrange(64)]
            case 2:
                text[at:at] = rng.choice(pool)[: rng.randrange(256)]
            case 3:
                text[at : at + 1] = bytes([rng.randrange(256)])
            case _:
                text[at:at] = text[at : at + rng.randrange(32)] * rng.randint(1, 20)
    return bytes(text[:MOST_BYTES])


def reshaped(rng: random.Random, tree: Any) -> bytes:
    """One hostile document: the right form, and up to three of its places are not as they were."""
    text = json.dumps(tree).encode()
    for _ in range(rng.randint(1, 3)):
        tree = _changed(rng, tree)
        larger = json.dumps(tree).encode()
        if len(larger) > MOST_TREE_BYTES:
            break
        text = larger
    return text


def _changed(rng: random.Random, tree: Any) -> Any:
    deeper = rng.random() < 0.85
    if isinstance(tree, dict) and tree and deeper:
        key, changed = rng.choice(list(tree)), dict(tree)
        match rng.randrange(12):
            case 0:
                del changed[key]
            case 1:
                changed[rng.choice(("x\x1b[2J", "", "\ud800", "kind", "id"))] = rng.choice(VALUES)
            case 2:
                changed[rng.choice(list(tree))] = tree[key]
            case _:
                changed[key] = _changed(rng, tree[key])
        return changed
    if isinstance(tree, list) and tree and deeper:
        at, longer = rng.randrange(len(tree)), list(tree)
        match rng.randrange(8):
            case 0:
                del longer[at]
            case 1:
                longer *= 40
            case _:
                longer[at] = _changed(rng, tree[at])
        return longer
    return rng.choice(VALUES)
