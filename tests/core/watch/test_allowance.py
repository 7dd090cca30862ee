"""What is granted of a flood."""

from orchestrator.core.watch.allowance import Allowance


def test_what_is_saved_is_granted_at_once_and_then_so_much_a_second() -> None:
    """A pause saves up to the most, never more."""
    allowance = Allowance(10, 100)
    assert allowance.take(250, 0.0) == 100
    assert allowance.take(250, 0.0) == 0
    assert allowance.take(250, 2.0) == 20
    assert allowance.take(5, 3.0) == 5
    assert allowance.take(250, 1e6) == 100
