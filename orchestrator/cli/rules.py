"""rules test: whether signatures do what they are for, and what they match in a log. No daemon."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from orchestrator.cli import output
from orchestrator.cli.diagnose import CRASH_FOUND, chunks_of, inventory_path
from orchestrator.core.detect.proving import Proof, Rule, matches, prove, read_rule
from orchestrator.core.inventory.document import read_document

SAMPLES_FAIL = 1


def test(options: argparse.Namespace) -> int:
    """Check the inventory's rules and the built-in ones; with files, show what matches where.

    1 where a sample is not as it should be, 3 where a file tells of a crash.
    """
    path = inventory_path(options)
    rules = _rules(path)
    proofs = prove(rules)
    places = _places(path, len(rules))
    found = [_matches(file, rules) for file in options.files]
    if options.json:
        output.print_json(_document(proofs, places, found))
    else:
        output.say(*_proof_lines(proofs, places))
        for one in found:
            output.say("", *_match_lines(one))
    if any(proof.faults for proof in proofs):
        return SAMPLES_FAIL
    return CRASH_FOUND if any(one["crash"] for one in found) else 0


def _rules(path: Path | None) -> list[Rule]:
    if path is None:
        return []
    from orchestrator.daemon.inventory_reading import read_inventory

    return [read_rule(rule) for rule in read_inventory(path.resolve()).rules]


def _places(path: Path | None, count: int) -> list[str]:
    """`FILE:LINE` of each rule."""
    if path is None:
        return []
    document = read_document(path.read_bytes())
    return [f"{path}:{document.line(('rules', index))}" for index in range(count)]


def _matches(file: str, rules: Sequence[Rule]) -> dict[str, Any]:
    own = {rule.signature.id for rule in rules}
    found = matches(chunks_of(file), rules)
    return {
        "file": file,
        "verdict": found.verdict.verdict.value,
        "crash": found.verdict.crash,
        "signature": found.verdict.signature,
        "matches": [
            {
                "line": one.line,
                "signature": one.signature,
                "role": one.role.value,
                "own": one.signature in own,
                "rank": one.rank,
                "text": one.text,
            }
            for one in found.findings
        ],
    }


def _document(
    proofs: Sequence[Proof], places: Sequence[str], found: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    where = [*places, *[None] * (len(proofs) - len(places))]
    rules = [
        {**asdict(proof), "place": place, "ok": not proof.faults}
        for proof, place in zip(proofs, where, strict=True)
    ]
    return {"schema": 1, "rules": rules, "files": list(found)}


def _proof_lines(proofs: Sequence[Proof], places: Sequence[str]) -> Iterator[str]:
    own = [proof for proof in proofs if proof.own]
    for proof, place in zip(own, places, strict=True):
        if proof.faults:
            yield from (f"{place}: {proof.signature}: {fault}" for fault in proof.faults)
        elif not proof.num_positive:
            yield f"{place}: {proof.signature}: no samples; give it `positive:` and `negative:`"
        else:
            yield f"ok  {proof.signature}: {_counted(proof.num_positive, proof.num_negative)}"
    known = [proof for proof in proofs if not proof.own]
    for proof in known:
        yield from (f"built-in {proof.signature}: {fault}" for fault in proof.faults)
    if not any(proof.faults for proof in known):
        positive = sum(proof.num_positive for proof in known)
        negative = sum(proof.num_negative for proof in known)
        yield f"ok  {len(known)} built-in signatures: {_counted(positive, negative)}"


def _counted(positive: int, negative: int) -> str:
    return f"{positive} positive and {negative} negative samples"


def _match_lines(found: dict[str, Any]) -> Iterator[str]:
    yield f"{found['file']}: {found['verdict']}" + (
        f" ({found['signature']})" if found["signature"] else ""
    )
    rows = [
        [
            str(one["line"] or "-"),
            one["signature"],
            one["role"],
            "own" if one["own"] else "built-in",
            one["text"],
        ]
        for one in found["matches"]
    ]
    if rows:
        yield from output.table(("LINE", "SIGNATURE", "ROLE", "RULE", "TEXT"), rows)
    else:
        yield "  nothing matches"
