"""Ways to a host that a real site has: certificates for users and hosts, a jump that is needed."""

import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from orchestrator.core.command import Command
from orchestrator.core.errors import AuthRefused, HostKeyRefused, TargetError, Unreachable
from orchestrator.core.model import Host, Target
from orchestrator.transport.pool import Pool
from tests.lab.agent import ssh_agent
from tests.lab.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("lab-ssh")]

WITHIN_S = 20.0
SUBNET = "10.231.7"
ECHO = Command(argv=("echo", "here"))


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    """A pool of this test."""
    made = Pool()
    yield made
    await made.close()


@dataclass
class Site:
    """A certificate authority, and an sshd on the lab's host that trusts nothing else."""

    lab: Lab
    folder: Path
    port: int

    def keygen(self, *words: str) -> None:
        """`ssh-keygen`, quietly."""
        subprocess.run(["ssh-keygen", "-q", *words], check=True, capture_output=True)

    def sign(self, name: str, *options: str) -> Path:
        """A fresh user's key, with a certificate beside it."""
        key = self.folder / name
        self.keygen("-t", "ed25519", "-N", "", "-f", str(key))
        self.keygen("-s", str(self.folder / "ca"), "-I", name, *options, f"{key}.pub")
        return key

    def host(self, key: Path, known: str) -> Host:
        """The sshd, as an inventory has it; `known` is the text of its known_hosts."""
        known_hosts = self.folder / f"known-{key.name}"
        known_hosts.write_text(known)
        return Host(
            name="site",
            hostname=self.lab.host.address,
            port=self.port,
            user="root",
            identity_file=str(key),
            known_hosts=str(known_hosts),
        )

    @property
    def authority(self) -> str:
        """The line of known_hosts that trusts every host which the authority has signed."""
        return f"@cert-authority * {(self.folder / 'ca.pub').read_text()}"


@pytest.fixture
def site(lab: Lab, tmp_path: Path, free_port: int) -> Iterator[Site]:
    """Its host key is certified for the lab's address; users need a certificate."""
    made = Site(lab, tmp_path, free_port)
    made.keygen("-t", "ed25519", "-N", "", "-f", str(tmp_path / "ca"))
    etc = lab.host.root / "etc" / "ssh"
    made.keygen("-t", "ed25519", "-N", "", "-f", str(etc / "site_host"))
    names = f"{lab.host.address},site.example"
    made.keygen(
        "-s", str(tmp_path / "ca"), "-I", "h", "-h", "-n", names, str(etc / "site_host.pub")
    )
    (etc / "site_ca.pub").write_text((tmp_path / "ca.pub").read_text())
    config = etc / "site_sshd_config"
    config.write_text(
        f"ListenAddress {lab.host.address}:{free_port}\nHostKey /etc/ssh/site_host\n"
        "HostCertificate /etc/ssh/site_host-cert.pub\nTrustedUserCAKeys /etc/ssh/site_ca.pub\n"
        "AuthorizedKeysFile none\nPidFile none\nUsePAM no\nPermitRootLogin yes\n"
        "PasswordAuthentication no\nKbdInteractiveAuthentication no\n"
    )
    argv = lab.host.entering(["/usr/sbin/sshd", "-D", "-e", "-f", "/etc/ssh/site_sshd_config"])
    with subprocess.Popen(argv, stderr=subprocess.DEVNULL) as sshd:
        _answers(lab.host.address, free_port)
        yield made
        sshd.terminate()
    for path in etc.glob("site_*"):
        path.unlink()


def _answers(address: str, port: int, *before: str) -> None:
    """Wait until an sshd greets whoever connects."""
    code = (
        f"import socket; s = socket.create_connection(('{address}', {port}), 2);"
        " assert s.recv(4) == b'SSH-'"
    )
    deadline = time.monotonic() + WITHIN_S
    while subprocess.run(
        [*before, "python3", "-c", code], check=False, capture_output=True
    ).returncode:
        if time.monotonic() > deadline:
            raise TimeoutError(f"no sshd at {address}:{port}")
        time.sleep(0.05)


async def said(pool: Pool, host: Host) -> bytes:
    """What a command on the host prints."""
    done = await pool.transport(Target(name="site", host=host)).run(ECHO)
    return done.stdout


async def refused(pool: Pool, host: Host) -> TargetError:
    """How the way there is refused."""
    with pytest.raises(TargetError) as caught:
        await said(pool, host)
    return caught.value


async def test_a_user_and_a_host_with_certificates_meet(site: Site, pool: Pool) -> None:
    """Neither knows the other's key: both trust who signed it."""
    key = site.sign("user", "-n", "root")
    assert await said(pool, site.host(key, site.authority)) == b"here\n"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("-n", "somebody"), "another user's"),
        (("-n", "root", "-V", "-2h:-1h"), "expired"),
    ],
    ids=["another user's", "expired"],
)
async def test_a_certificate_that_does_not_hold_lets_nobody_in(
    site: Site, pool: Pool, options: tuple[str, ...], why: str
) -> None:
    """The sentence is the one of a key that is not let in."""
    key = site.sign("user", *options)
    error = await refused(pool, site.host(key, site.authority))
    assert isinstance(error, AuthRefused), why


async def test_a_host_that_another_authority_signed_is_not_trusted(site: Site, pool: Pool) -> None:
    """Nor one whose certificate names another address."""
    key = site.sign("user", "-n", "root")
    site.keygen("-t", "ed25519", "-N", "", "-f", str(site.folder / "other"))
    other = f"@cert-authority * {(site.folder / 'other.pub').read_text()}"
    assert isinstance(await refused(pool, site.host(key, other)), HostKeyRefused)
    host = replace(site.host(key, site.authority), hostname="localhost")
    assert isinstance(await refused(pool, host), HostKeyRefused)


async def test_a_revoked_host_key_is_not_trusted_though_it_is_signed(
    site: Site, pool: Pool
) -> None:
    """`@revoked` outweighs the authority."""
    key = site.sign("user", "-n", "root")
    own = (site.lab.host.root / "etc/ssh/site_host.pub").read_text()
    error = await refused(pool, site.host(key, f"{site.authority}@revoked * {own}"))
    assert isinstance(error, HostKeyRefused)


@pytest.fixture
def behind(netns_lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    """An sshd in a network namespace that only the lab's host has a cable to.

    A jump takes its keys from where ssh takes them, here an agent, and not from the host's entry.
    """
    with ssh_agent(netns_lab.host.identity_file, tmp_path / "agent", monkeypatch):
        yield from _behind(netns_lab)


def _behind(netns_lab: Lab) -> Iterator[Host]:
    host = netns_lab.host
    argv = host.entering(["unshare", "--net", "sh", "-c", "echo ready; exec sleep infinity"])
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as inner:
        assert inner.stdout is not None
        assert inner.stdout.readline() == "ready\n"
        enter = ["nsenter", "-t", str(inner.pid), "--net", "--"]
        host.run(["ip", *f"link add hop0 type veth peer name hop1 netns {inner.pid}".split()])
        for line in (f"addr add {SUBNET}.1/30 dev hop0", "link set hop0 up"):
            host.run(["ip", *line.split()])
        for line in (f"addr add {SUBNET}.2/30 dev hop1", "link set hop1 up", "link set lo up"):
            subprocess.run([*enter, "ip", *line.split()], check=True)
        config = host.root / "etc/ssh/behind_sshd_config"
        config.write_text(
            f"ListenAddress {SUBNET}.2:22\nHostKey /etc/ssh/lab_host_ed25519\nPidFile none\n"
            "UsePAM no\nPermitRootLogin prohibit-password\n"
        )
        daemon = ["/usr/sbin/sshd", "-D", "-e", "-f", "/etc/ssh/behind_sshd_config"]
        with subprocess.Popen(host.entering([*enter, *daemon]), stderr=subprocess.DEVNULL) as sshd:
            _answers(f"{SUBNET}.2", 22, *enter)
            host.trust_at(f"{SUBNET}.2", 22)
            yield Host(
                name="behind",
                hostname=f"{SUBNET}.2",
                user="root",
                identity_file=str(host.identity_file),
                known_hosts=str(host.known_hosts),
                proxy_jump=f"root@{host.address}:{host.port}",
            )
            sshd.terminate()
        inner.terminate()


async def test_a_host_that_only_its_jump_can_reach(behind: Host, pool: Pool) -> None:
    """Nothing here has a way to it; the jump has."""
    direct = replace(behind, proxy_jump=None)
    assert isinstance(await refused(pool, direct), Unreachable)
    assert await said(pool, behind) == b"here\n"
    done = await pool.transport(Target(name="behind", host=behind)).run(
        Command(argv=("sh", "-c", "echo $SSH_CONNECTION"))
    )
    assert done.stdout.split()[2] == f"{SUBNET}.2".encode()
