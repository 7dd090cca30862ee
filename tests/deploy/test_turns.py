"""Who has a working folder to itself, and that a deploy which was given up has it no more."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.probe import claims
from orchestrator.probe.errors import OpError
from orchestrator.probe.workdir import Workdir

DIGEST = "0123456789abcdef"


@pytest.fixture
def there(workdir: Path) -> Iterator[Workdir]:
    """A working folder in which nothing was deployed yet; who still sends to it gives up."""
    made = Workdir(str(workdir))
    yield made
    for deploy in (1, 2):
        claims.give_up(made, DIGEST, deploy)


def test_who_switches_or_prunes_waits_for_the_other(there: Workdir) -> None:
    """A second one begins when the first has ended, and not before."""
    asking, begun = threading.Event(), threading.Event()

    def second() -> None:
        asking.set()
        with Workdir(there.path).exclusively():
            begun.set()

    with there.exclusively():
        waiting = threading.Thread(target=second)
        waiting.start()
        assert asking.wait(30.0)
        assert not begun.wait(0.5)
    waiting.join(30.0)
    assert begun.is_set()


def test_what_was_on_its_way_when_a_deploy_was_given_up_comes_to_nothing(there: Workdir) -> None:
    """It makes no folder anew; another deploy of the same release is not concerned."""
    incoming = Path(claims.claim(there, DIGEST, 1))
    assert (incoming / "blobs").is_dir()
    claims.give_up(there, DIGEST, 1)
    with pytest.raises(OpError, match="was given up"):
        claims.claim(there, DIGEST, 1)
    assert not incoming.exists()
    assert claims.claim(there, DIGEST, 2) == str(incoming)
