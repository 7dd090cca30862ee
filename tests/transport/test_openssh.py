"""What ssh's own configuration says of a host, and what of it orch cannot obey."""

import os
import shutil
from pathlib import Path

import pytest

from orchestrator.core.errors import AuthRefused, Unreachable
from orchestrator.core.model import Host
from orchestrator.transport import openssh
from orchestrator.transport.openssh import resolve

needs_client = pytest.mark.skipif(shutil.which("ssh") is None, reason="no ssh client here")

SAID = """\
host gpu3
user train
hostname gpu3.example.org
port 2200
identitiesonly yes
stricthostkeychecking accept-new
knownhostscommand /usr/bin/keys %H
revokedhostkeys none
identityfile ~/.ssh/%h.key
identityfile /keys/100%%
certificatefile /keys/id-cert.pub
identityagent none
hostkeyalias gpu-three
userknownhostsfile /k/known_hosts ~/.ssh/known_hosts
globalknownhostsfile /etc/ssh/ssh_known_hosts
proxycommand nc -X 5 %h %p # %r %%
"""


def test_reading_what_ssh_says() -> None:
    """Names of files with tokens and tildes come out as files; the rest as it is."""
    found = openssh._settings(SAID)
    home = str(Path.home())
    assert (found.hostname, found.port, found.user) == ("gpu3.example.org", 2200, "train")
    assert found.identity_files == (f"{home}/.ssh/gpu3.example.org.key", "/keys/100%")
    assert found.certificate_files == ("/keys/id-cert.pub",)
    assert (found.identities_only, found.agent, found.host_key_alias) == (True, None, "gpu-three")
    assert found.known_hosts == (
        "/k/known_hosts",
        f"{home}/.ssh/known_hosts",
        "/etc/ssh/ssh_known_hosts",
    )
    assert found.proxy_command == "nc -X 5 gpu3.example.org 2200 # train %"


def test_what_cannot_be_honoured_is_named() -> None:
    """Settings that would change who is trusted are named where they are not obeyed."""
    assert openssh._settings(SAID).not_honoured == (
        "stricthostkeychecking accept-new",
        "knownhostscommand /usr/bin/keys %H",
    )


@needs_client
async def test_inventory_goes_before_the_configuration(tmp_path: Path) -> None:
    """What the inventory says of a host is what ssh itself is told."""
    known, key = str(tmp_path / "known hosts"), tmp_path / "id"
    key.touch()
    found = await resolve(
        Host(
            name="pve1",
            hostname="10.1.2.6",
            port=2222,
            user="admin",
            identity_file=str(key),
            known_hosts=known,
        )
    )
    assert (found.hostname, found.port, found.user) == ("10.1.2.6", 2222, "admin")
    assert found.identity_files[0] == str(key)
    assert found.known_hosts[0] == known
    assert found.jumps == ()


async def test_a_key_that_is_not_there() -> None:
    """An identity file that is missing is refused by its name; ssh itself would pass it over."""
    with pytest.raises(AuthRefused, match=r"^pve1: its identity_file /none/id is not there"):
        await resolve(Host(name="pve1", identity_file="/none/id"))


@needs_client
async def test_jumps_are_resolved_too() -> None:
    """Every host of a ProxyJump is resolved, in its order; the known_hosts said count for all."""
    found = await resolve(
        Host(
            name="pve1",
            known_hosts="/k/known",
            proxy_jump="ops@bastion.example:2201,[fe80::1]:23,inner",
        )
    )
    assert [(hop.hostname, hop.port) for hop in found.jumps] == [
        ("bastion.example", 2201),
        ("fe80::1", 23),
        ("inner", 22),
    ]
    assert found.jumps[0].user == "ops"
    assert all(hop.known_hosts[0] == "/k/known" for hop in (found, *found.jumps))


@needs_client
async def test_fault_of_the_configuration_is_said() -> None:
    """What ssh will not even resolve is Unreachable, with ssh's own words."""
    with pytest.raises(Unreachable, match=r"ssh cannot make out how to reach it: .*port") as caught:
        await resolve(Host(name="pve1", port=700000))
    assert caught.value.target == "pve1"


@needs_client
async def test_algorithms_that_were_configured_are_told_and_ssh_s_own_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Signs in front of a list are worked out; a jump has what was configured for it."""
    configured(tmp_path, monkeypatch, "Host pve1\n Ciphers -*-ctr\n MACs hmac-sha2-512\n")
    found = await resolve(Host(name="pve1", proxy_jump="bastion"))
    assert set(found.algorithms) == {"ciphers", "macs"}
    assert found.algorithms["macs"] == ("hmac-sha2-512",)
    assert "aes256-gcm@openssh.com" in found.algorithms["ciphers"]
    assert "aes256-ctr" not in found.algorithms["ciphers"]
    assert found.jumps[0].algorithms == {}


def configured(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Have `ssh` read this configuration; it takes no other home than the account's own."""
    (folder / "config").write_text(text)
    (folder / "ssh").write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {folder}/config "$@"\n')
    (folder / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


async def test_without_a_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no ssh, its defaults serve, and it is said that its file was not read."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USER", "me")
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    found = await resolve(Host(name="GPU3", proxy_jump="ops@bastion:2201"))
    assert (found.hostname, found.port) == ("gpu3", 22)
    assert found.identity_files[0] == f"{tmp_path}/.ssh/id_ed25519"
    assert found.known_hosts[0] == f"{tmp_path}/.ssh/known_hosts"
    assert [(hop.user, hop.address) for hop in found.jumps] == [("ops", "bastion:2201")]
    assert "no ssh client" in found.not_honoured[0]
