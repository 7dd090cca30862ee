"""`orch init` and a person who errs: it asks again, and leaves nothing half done."""

import os
from pathlib import Path

import pytest

from tests.acceptance.conftest import Orch
from tests.conftest import TmuxCall, XdgFolders


class Person:
    """Somebody in a terminal of 160x60 before `orch init`."""

    def __init__(self, orch: Orch, tmux: TmuxCall) -> None:
        self._orch, self._tmux = orch, tmux
        words = " ".join(orch.argv("init"))
        tmux(
            *("-L", "errs", "new-session", "-d", "-x", "160", "-y", "60", "-s", "a"),
            *("-c", str(orch.folder), f"{words}; echo left with $?; sleep 60"),
        )

    def sees(self, *any_of: str, times: int = 1) -> None:
        """Wait until one of these is on the screen, so many times."""
        self._orch.until(lambda: any(self.screen().count(words) >= times for words in any_of))

    def screen(self) -> str:
        """What the terminal shows."""
        return self._tmux("-L", "errs", "capture-pane", "-p", "-J", "-t", "a").stdout

    def types(self, *keys: str) -> None:
        """Press keys, by tmux's names."""
        self._tmux("-L", "errs", "send-keys", "-t", "a", *keys)


@pytest.fixture
def person(xdg: XdgFolders, tmux: TmuxCall, tmp_path: Path) -> Person:
    """Whoever has no inventory yet, and a train.py."""
    (tmp_path / "train.py").write_text("print('trained')\n")
    return Person(Orch(folder=tmp_path, env=dict(os.environ)), tmux)


def test_a_wrong_answer_is_asked_again(person: Person, tmp_path: Path) -> None:
    """A number that is none, and a host that is none, are said so, and the right one is taken."""
    person.sees("Which host?")
    person.types("99", "Enter")
    person.sees("99 is none of these")
    person.types("no-such-host.invalid", "Enter")
    person.sees("cannot be reached")
    person.sees("Which host?", times=2)
    person.types("local", "Enter")
    person.sees("left with 0", "Which container of local?")  # this machine may have some
    if "Which container" in person.screen():
        person.types("none", "Enter")
    person.sees("left with 0")
    text = (tmp_path / "inventory.yaml").read_text()
    assert "local: {host: local}" in text
    assert "command: python3 train.py" in text


def test_ctrl_d_leaves(person: Person, tmp_path: Path) -> None:
    """The end of the input is no fault of orch's: nothing is written, the code is Ctrl-C's."""
    person.sees("Which host?")
    person.types("C-d")
    person.sees("left with 130")
    assert "Traceback" not in person.screen()
    assert not (tmp_path / "inventory.yaml").exists()
