"""What is different between two runs, told once."""

from orchestrator.core.explain import Change
from orchestrator.daemon.comparing import told_once


def change(text: str) -> Change:
    """A change of the environment."""
    return Change(kind="environment", name="x", text=text)


def test_what_changed_after_the_deploy_is_told_as_that_alone() -> None:
    """It is among what changed since the other run as well, and was listed twice."""
    since = (change("triton 3.6 -> 3.5"), change("flashinfer 0.6 appeared"))
    later = (change("flashinfer 0.6 appeared, after the deploy"),)
    assert told_once(since, later) == (since[0], later[0])
