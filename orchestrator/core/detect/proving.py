"""Whether signatures do what they are for: their own samples, and what they match in any log.

Owns the reading of a rule with its samples, and the comparison. It reads no file.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from orchestrator.core.detect.engine import Engine
from orchestrator.core.detect.samples import SAMPLES, Samples
from orchestrator.core.detect.signatures import Signature, load, parse_rule
from orchestrator.core.findings import Finding, Verdict

_SAMPLE_KEYS = ("positive", "negative")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule of the inventory: its signature, and the samples it was given."""

    signature: Signature
    samples: Samples


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What became of one signature's samples."""

    signature: str
    own: bool
    """From the inventory."""
    num_positive: int
    num_negative: int
    faults: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Matches:
    """What was found in a log."""

    findings: tuple[Finding, ...]
    verdict: Verdict


def read_rule(mapping: Mapping[str, object]) -> Rule:
    """A rule as the inventory has it; ValueError `KEY: reason` for its first fault."""
    samples = {key: _texts(mapping, key) for key in _SAMPLE_KEYS}
    rest = {key: value for key, value in mapping.items() if key not in _SAMPLE_KEYS}
    return Rule(signature=parse_rule(rest), samples=Samples(**samples))


def prove(rules: Sequence[Rule]) -> tuple[Proof, ...]:
    """Every rule and every built-in signature against its own samples; rules come first."""
    signatures = [rule.signature for rule in rules]
    own = [_proof(rule.signature.id, rule.samples, signatures, own=True) for rule in rules]
    known = dict.fromkeys(item.id for item in load())
    built_in = [_proof(name, SAMPLES.get(name, Samples()), [], own=False) for name in known]
    return (*own, *built_in)


def matches(chunks: Iterable[bytes], rules: Sequence[Rule]) -> Matches:
    """What the rules and the built-in signatures find in a log, and its verdict."""
    engine = Engine([rule.signature for rule in rules])
    findings: list[Finding] = []
    for chunk in chunks:
        findings += engine.feed(chunk)
    findings += engine.quiet()
    verdict = engine.close()
    # A block that was still open at the log's end is known by the verdict alone.
    known = {(one.signature, one.line) for one in findings}
    late = [one for one in verdict.findings if (one.signature, one.line) not in known]
    ordered = sorted([*findings, *late], key=lambda one: one.line)
    return Matches(findings=tuple(ordered), verdict=verdict)


def _proof(name: str, samples: Samples, rules: Sequence[Signature], *, own: bool) -> Proof:
    wrapped = [Rule(signature=one, samples=Samples()) for one in rules]
    faults = []
    for number, text in enumerate(samples.positive, start=1):
        if name not in _found(text, wrapped):
            faults.append(f"positive sample {number} is not found: {_first_line(text)}")
    for number, text in enumerate(samples.negative, start=1):
        if name in _found(text, wrapped):
            faults.append(f"negative sample {number} is found: {_first_line(text)}")
    return Proof(
        signature=name,
        own=own,
        num_positive=len(samples.positive),
        num_negative=len(samples.negative),
        faults=tuple(faults),
    )


def _found(text: str, rules: Sequence[Rule]) -> set[str | None]:
    found = matches([text.encode()], rules)
    names: set[str | None] = {one.signature for one in found.findings}
    return names | {found.verdict.signature}


def _first_line(text: str) -> str:
    line = next((line for line in text.splitlines() if line.strip()), "")
    return repr(line if len(line) <= 80 else line[:77] + "...")


def _texts(mapping: Mapping[str, object], key: str) -> tuple[str, ...]:
    value = mapping.get(key, ())
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"{key}: must be text or a list of texts")
    return tuple(value)
