"""A host that nobody has met: nothing is sent, and one command shows its key and accepts it."""

import subprocess
from pathlib import Path

import pytest

from tests.acceptance.conftest import MakeOrch, Orch, lab_job
from tests.conftest import TmuxCall
from tests.lab.lab import Lab

pytestmark = [
    pytest.mark.lab,
    pytest.mark.xdist_group("lab-trust"),
    pytest.mark.timeout(240),  # many commands, each a process, on a machine that may be busy
]


@pytest.fixture
def stranger(lab: Lab, make_orch: MakeOrch, known: Path) -> Orch:
    """An `orch` whose inventory names a host with an unknown key."""
    inventory = lab_job(lab, "python3 -m played steps --count 1").replace(
        str(lab.host.known_hosts), str(known)
    )
    return make_orch(inventory)


def fingerprint(lab: Lab) -> str:
    """The host's key as the host itself shows it."""
    words = ["ssh-keygen", "-lf", str(lab.host.folder / "keys/host.pub")]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()[1]


def test_unknown_key_then_trust_then_deploy(lab: Lab, stranger: Orch, known: Path) -> None:
    """Deploy stops with the command to give, which shows the key first; then deploy works."""
    refused = stranger("deploy", check=4)
    assert "is unknown" in refused.stderr
    assert "`orch trust pve1`" in refused.stderr
    shown = stranger("trust", "pve1", check=4)
    assert fingerprint(lab) in shown.stdout
    assert "--yes" in shown.stderr
    assert not known.exists()
    stranger("trust", "--yes", "pve1")
    assert oct(known.stat().st_mode & 0o777) == "0o600"
    stranger("deploy")
    again = stranger("trust", "ct200")
    assert "trusted already" in again.stdout
    assert len(known.read_text().splitlines()) == 1


def test_changed_key_is_refused_until_it_is_replaced(
    lab: Lab, stranger: Orch, known: Path, tmp_path: Path
) -> None:
    """--yes takes no key in the place of another; --replace does, and keeps every other line."""
    known.parent.mkdir()
    subprocess.run(["ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-f", tmp_path / "k"], check=True)
    key = (tmp_path / "k.pub").read_text().strip()
    known.write_text(f"[{lab.host.address}]:{lab.host.port} {key}\nother.example {key}")
    assert "`orch trust --replace pve1`" in stranger("deploy", check=4).stderr
    refused = stranger("trust", "--yes", "pve1", check=4)
    assert "CHANGED" in refused.stderr
    assert fingerprint(lab) in refused.stderr
    assert key in known.read_text()
    stranger("trust", "--yes", "--replace", "pve1")
    stranger("deploy")
    lines = known.read_text().splitlines()
    assert [line.split()[0] for line in lines] == [
        "other.example",
        f"[{lab.host.address}]:{lab.host.port}",
    ]


def test_a_person_is_asked_on_a_terminal(stranger: Orch, known: Path, tmux: TmuxCall) -> None:
    """The question comes after the fingerprint; no answer but yes writes anything."""
    words = " ".join(stranger.argv("trust", "pve1"))
    for answer, trusted in (("n", False), ("y", True)):
        tmux(
            *("-L", "asked", "new-session", "-d", "-x", "160", "-y", "40", "-s", answer),
            *("-c", str(stranger.folder), f"{words}; echo left with $?; sleep 60"),
        )

        def screen(name: str = answer) -> str:
            return tmux("-L", "asked", "capture-pane", "-p", "-J", "-t", name).stdout

        stranger.until(lambda: "[y/N]" in screen())
        assert "SHA256:" in screen()
        tmux("-L", "asked", "send-keys", "-t", answer, answer, "Enter")
        stranger.until(lambda: "left with" in screen())
        assert known.exists() is trusted


def test_ad_hoc_without_any_inventory(lab: Lab, bare_orch: Orch, known: Path) -> None:
    """A host of no inventory is trusted by its address; the key goes where ssh itself keeps it."""
    place = f"root@{lab.host.address}:{lab.host.port}"
    assert fingerprint(lab) in bare_orch("trust", place, check=4).stdout
    bare_orch("trust", "--yes", place)
    assert known.read_text().startswith(f"[{lab.host.address}]:{lab.host.port} ssh-ed25519 ")
    assert "trusted already" in bare_orch("trust", place).stdout
