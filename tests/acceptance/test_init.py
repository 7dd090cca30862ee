"""The first minute: `orch init` looks around and writes what the next commands work with."""

import json
from functools import partial

import pytest

from tests.acceptance.conftest import Orch
from tests.conftest import TmuxCall
from tests.lab.lab import Lab

pytestmark = [
    pytest.mark.lab,
    pytest.mark.xdist_group("lab"),
    pytest.mark.timeout(240),  # many commands, each a process, on a machine that may be busy
]


@pytest.fixture
def bare(bare_orch: Orch, lab: Lab) -> Orch:
    """`orch` with no inventory, to which the host's key is known."""
    bare_orch("trust", "--yes", "box")
    lab.gpus.set_idle(2)
    return bare_orch


def test_the_containers_of_a_host_become_targets(bare: Orch) -> None:
    """--yes takes all that run; the file works at once and is never overwritten."""
    said = bare("init", "--host", "box", "--yes")
    assert "pct:200, pct:201" in said.stdout
    inventory = bare.folder / "inventory.yaml"
    text = inventory.read_text()
    assert "ct200: {host: box, runtime: pct, container: 200}" in text
    assert "Python 3" in text
    assert text.startswith("# yaml-language-server: $schema=inventory.schema.json\n")
    assert json.loads((bare.folder / "inventory.schema.json").read_text())["properties"]["jobs"]
    assert bare("exec", "ct201", "--", "hostname").stdout == "ct201\n"
    assert "left as it is" in bare("init", "--host", "box", "--yes", check=2).stderr
    assert inventory.read_text() == text


def test_only_what_was_said(bare: Orch) -> None:
    """One container by its id; one that is not there is named with those that are."""
    assert "pct:200" in bare("init", "--host", "box", "--container", "9", "--yes", check=2).stderr
    assert not (bare.folder / "inventory.yaml").exists()
    bare("init", "--host", "box", "--container", "200", "--yes")
    assert "ct201" not in (bare.folder / "inventory.yaml").read_text()


def test_nobody_to_ask(bare: Orch) -> None:
    """Without a terminal and without flags nothing is written, and the flags are named."""
    assert "--host HOST" in bare("init", check=2).stderr
    assert not (bare.folder / "inventory.yaml").exists()


def test_a_person_is_asked(bare: Orch, tmux: TmuxCall) -> None:
    """Host, container and the daemon's place, each by its number; the rest is found."""
    path = bare.env["PATH"]
    words = " ".join(bare.argv("init"))
    tmux(
        *("-L", "asked", "new-session", "-d", "-x", "160", "-y", "60", "-s", "a"),
        *("-c", str(bare.folder), f"PATH={path} {words}; echo left with $?; sleep 60"),
    )

    def screen() -> str:
        return tmux("-L", "asked", "capture-pane", "-p", "-J", "-t", "a").stdout

    def asked(question: str) -> bool:
        return question in screen()

    for question, answer in (
        ("Which host?", "1"),
        ("Which container of box?", "1"),
        ("Where shall the daemon live?", "2"),
    ):
        bare.until(partial(asked, question))
        tmux("-L", "asked", "send-keys", "-t", "a", answer, "Enter")
    bare.until(lambda: "left with 0" in screen())
    text = (bare.folder / "inventory.yaml").read_text()
    assert "ct200" in text
    assert "ct201" not in text
    assert "The daemon lives on box" in text
