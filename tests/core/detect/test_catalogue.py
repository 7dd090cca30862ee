"""The page of signatures in the documentation."""

from bench.diagnose.catalogue import PAGE, page


def test_page_is_not_stale() -> None:
    """docs/signatures.md is what `python -m bench.diagnose.catalogue` writes."""
    assert PAGE.read_text() == page()
