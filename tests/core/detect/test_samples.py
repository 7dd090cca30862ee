"""Every built-in signature against its own samples."""

import pytest

from orchestrator.core.detect.proving import matches, prove
from orchestrator.core.detect.samples import SAMPLES
from orchestrator.core.detect.signatures import load
from orchestrator.core.findings import Role

NAMES = sorted({item.id for item in load()})
ENDINGS = sorted({item.id for item in load() if item.role is not Role.DIAGNOSTIC})


def test_every_signature_has_samples_of_both_kinds() -> None:
    """None is left without a log that is of it and one that only looks like it."""
    assert sorted(SAMPLES) == NAMES
    assert all(one.positive and one.negative for one in SAMPLES.values())


def test_samples_are_found_and_not_found() -> None:
    """The positive ones are found, the negative ones are not."""
    assert [fault for proof in prove([]) for fault in proof.faults] == []


@pytest.mark.parametrize("name", ENDINGS)
def test_verdict_on_a_positive_sample_names_it(name: str) -> None:
    """Read as a whole log it is a crash of that very signature, as `orch simulate` needs it."""
    for text in SAMPLES[name].positive:
        verdict = matches([text.encode()], []).verdict
        assert (verdict.crash, verdict.signature) == (True, name)
