"""What an ordinary line is a sign of, found quickly: the scanner in front must miss none."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.detect import afterwards
from orchestrator.core.detect.afterwards import Sign, signs_of

SAMPLES = Path(__file__).with_name("samples")
WORDS = (
    *("done", "exit code 1", "rc=0", "retry", "#3", "resuming from", "skipped", "FAILED", "50%|"),
    *("job", "finished", "caf\u00e9", "step", "7", "0", "-----", "$ ", "  ^^^", "https://a.b", "_"),
)


def plainly(text: str) -> Sign:
    """The first pattern that matches, each tried in its turn."""
    found = (sign for pattern, sign in afterwards._SIGNS if pattern.search(text[:500]))
    return next(found, Sign.OTHER)


def test_scanner_in_front_of_the_signs_misses_none_in_the_samples() -> None:
    """Each line of each sample has the sign that its patterns give it one by one."""
    lines = {
        line
        for path in SAMPLES.glob("*.log")
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines()
    }
    ordered = sorted(lines)
    assert signs_of(ordered) == [plainly(line) for line in ordered]
    assert set(signs_of(ordered)) == set(Sign)


@given(st.lists(st.sampled_from(WORDS), max_size=6), st.sampled_from((" ", "", ": ", ".")))
def test_scanner_in_front_of_the_signs_misses_none_in_odd_lines(words: list[str], gap: str) -> None:
    """Words of the patterns in any order, also beside letters that the scanner does not know."""
    line = gap.join(words)
    found = signs_of([line, line.upper()] * (afterwards.MANY_LINES // 2))
    assert found[:2] == signs_of([line, line.upper()]) == [plainly(line), plainly(line.upper())]
