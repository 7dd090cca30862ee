"""SSH against a real sshd: who is trusted, who is let in, what is shared, what noise does."""

import asyncio
import os
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.core.command import STANDARD_PATH, Command
from orchestrator.core.errors import AuthRefused, HostKeyRefused, TargetError, Unreachable
from orchestrator.core.model import Host, Target
from orchestrator.transport.door import Door
from orchestrator.transport.openssh import resolve
from orchestrator.transport.pool import Pool
from orchestrator.transport.ssh import untrusted_key
from orchestrator.transport.ssh.algorithms import to_use
from orchestrator.transport.ssh.connecting import connect
from tests.lab import cgroups
from tests.lab import host as lab_host
from tests.lab.agent import ssh_agent
from tests.lab.declared import declared
from tests.lab.lab import Lab
from tests.lab.proxy import TcpProxy
from tests.transport.test_openssh import configured

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("lab-ssh")]

DEADLINE_S = 30.0
AWAY_S = 5.0
WAITS_S = 9.0
ECHO = Command(argv=("echo", "here"))


def host_of(lab: Lab) -> Host:
    """The lab's host, as an inventory has it."""
    return declared(lab)


def container(host: Host) -> Target:
    """Container 200 on a host."""
    return Target(name="ct200", host=host, runtime="pct", container="200")


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    """A pool of this test."""
    made = Pool()
    yield made
    await made.close()


async def refusal(pool: Pool, target: Target) -> TargetError:
    """How the first command on a target fails."""
    with pytest.raises(TargetError) as caught:
        await pool.transport(target).run(ECHO)
    return caught.value


def num_connections(lab: Lab) -> int:
    """Connections that the lab's sshd serves now; root's have one sshd each."""
    count = 0
    for pid in cgroups.pids(lab.host.cgroup):
        try:
            count += Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sshd: root")
        except OSError:
            continue  # it has just ended
    return count


async def connections_become(lab: Lab, count: int) -> None:
    """Wait until sshd serves so many; one that is just let in has not its name yet."""
    async with asyncio.timeout(DEADLINE_S):
        while num_connections(lab) != count:
            await asyncio.sleep(0.1)


async def test_targets_of_a_host_share_a_connection(lab: Lab, pool: Pool) -> None:
    """Commands on the host and in its containers go over one connection, not over one each."""
    host = host_of(lab)
    targets = [container(host), Target(name="itself", host=host)]
    channels = [await pool.transport(target).open(Command(argv=("cat",))) for target in targets]
    await connections_become(lab, 1)
    for channel in channels:
        await channel.close()


async def test_bulk_has_a_connection_to_itself(lab: Lab, pool: Pool) -> None:
    """A bulk channel opens a connection of its own, which ends with it."""
    transport = pool.transport(container(host_of(lab)))
    channel = await transport.open(Command(argv=("cat",)))
    bulk = await transport.open(Command(argv=("cat",)), bulk=True)
    await connections_become(lab, 2)
    await bulk.close()
    await connections_become(lab, 1)
    await channel.close()


async def test_unknown_host_key(lab: Lab, pool: Pool, tmp_path: Path) -> None:
    """An unknown key stops everything, and the sentence has its fingerprint and the way out."""
    shown = subprocess.run(
        ["ssh-keygen", "-lf", lab.host.folder / "keys/host.pub"],
        capture_output=True,
        text=True,
        check=True,
    )
    host = replace(host_of(lab), known_hosts=str(tmp_path / "none"))
    error = await refusal(pool, container(host))
    assert isinstance(error, HostKeyRefused)
    assert error.target == "ct200"
    assert "is unknown: ssh-ed25519 " + shown.stdout.split()[1] in str(error)
    assert "`orch trust pve1`" in str(error)


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa"])
async def test_changed_host_key(lab: Lab, pool: Pool, tmp_path: Path, kind: str) -> None:
    """Another key than the known one is called changed, whatever kind the known one was."""
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", tmp_path / "other"], check=True)
    known = tmp_path / "known_hosts"
    other = (tmp_path / "other.pub").read_text()
    known.write_text(f"[{lab.host.address}]:{lab.host.port} {other}")
    error = await refusal(pool, container(replace(host_of(lab), known_hosts=str(known))))
    assert isinstance(error, HostKeyRefused)
    assert "has CHANGED" in str(error)


async def test_revoked_host_key(lab: Lab, pool: Pool, tmp_path: Path) -> None:
    """A key marked @revoked is refused even where another line trusts it."""
    known = tmp_path / "known_hosts"
    trusted = lab.host.known_hosts.read_text()
    known.write_text(trusted + f"@revoked {trusted}")
    error = await refusal(pool, container(replace(host_of(lab), known_hosts=str(known))))
    assert isinstance(error, HostKeyRefused)
    assert "revoked" in str(error)


async def test_hashed_known_hosts_among_nonsense(lab: Lab, pool: Pool, tmp_path: Path) -> None:
    """Hashed names are found, and lines that make no sense are passed over, as ssh does."""
    known = tmp_path / "known_hosts"
    known.write_text(lab.host.known_hosts.read_text())
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", known], check=True, capture_output=True)
    hashed = known.read_bytes()
    assert hashed.startswith(b"|1|")
    known.write_bytes(b"nonsense\n@what x y z\n\xff\xfe\n" + hashed)
    transport = pool.transport(container(replace(host_of(lab), known_hosts=str(known))))
    assert (await transport.run(ECHO)).stdout == b"here\n"


async def test_scanned_key_is_the_one_to_trust(lab: Lab, pool: Pool, tmp_path: Path) -> None:
    """The line that a scan gives, written to the file it names, is what was missing."""
    known = tmp_path / "known_hosts"
    host = replace(host_of(lab), known_hosts=str(known))
    key = await untrusted_key(host)
    assert key is not None
    assert key.known == ()
    assert key.known_hosts_file == str(known)
    assert key.fingerprint in str(await refusal(pool, container(host)))
    known.write_text(key.known_hosts_line + "\n")
    assert (await pool.transport(container(host)).run(ECHO)).stdout == b"here\n"
    assert await untrusted_key(host) is None


async def test_refused_keys(
    lab: Lab, pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key that the host does not know, or that has a passphrase, is told by name."""
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    locked = tmp_path / "locked"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", locked], check=True)
    error = await refusal(pool, container(replace(host_of(lab), identity_file=str(locked))))
    assert isinstance(error, AuthRefused)
    assert f"{locked} has a passphrase" in str(error)
    assert "ssh-add" in str(error)


async def test_nobody_listens(lab: Lab, pool: Pool, free_port: int) -> None:
    """A port where nobody listens is Unreachable, with the address and what to look at."""
    error = await refusal(pool, container(replace(host_of(lab), port=free_port)))
    assert isinstance(error, Unreachable)
    assert f"127.0.0.1:{free_port}" in str(error)
    assert error.target == "ct200"


async def test_sshd_that_was_killed(lab: Lab, pool: Pool) -> None:
    """A channel whose sshd dies ends with an error, and the next command connects anew."""
    transport = pool.transport(container(host_of(lab)))
    channel = await transport.open(Command(argv=("cat",)))
    await channel.write(b"x")
    assert await channel.read() == b"x"
    lab.host.kill_sshd()
    with pytest.raises(Unreachable, match=r"^ct200: the connection was lost"):
        await asyncio.wait_for(channel.read(), timeout=DEADLINE_S)
    await channel.close()
    lab.host.start_sshd()
    assert (await transport.run(ECHO)).stdout == b"here\n"


@pytest.mark.parametrize(
    "bashrc",
    [
        lab_host.BASHRC_PRINTS,
        lab_host.BASHRC_SLOW,
        lab_host.BASHRC_FAILS,
        "printf 'no newline'\n",
        "head -c 300000 /dev/zero\n",
    ],
)
async def test_login_shell_that_prints(lab: Lab, pool: Pool, bashrc: str) -> None:
    """What a .bashrc prints, however much, is no output of the command."""
    lab.host.set_bashrc(bashrc)
    done = await pool.transport(container(host_of(lab))).run(ECHO)
    assert (done.exit_status, done.stdout) == (0, b"here\n")


async def test_login_shell_that_leaves(lab: Lab, pool: Pool) -> None:
    """A .bashrc that exits leaves an empty output and its status, not a command half run."""
    lab.host.set_bashrc("echo bye; exit 7\n")
    done = await pool.transport(container(host_of(lab))).run(ECHO)
    assert (done.exit_status, done.stdout) == (7, b"")


@pytest.mark.parametrize("keep_env", [True, False])
async def test_environment_inside(lab: Lab, pool: Pool, keep_env: bool) -> None:
    """Inside a container nothing of the host is left, whether pct hands it in or not."""
    lab.host.set_keep_env(keep_env)
    lab.host.set_bashrc("export PATH=/opt/conda/bin:$PATH CUDA_VISIBLE_DEVICES=3\n")
    done = await pool.transport(container(host_of(lab))).run(Command(argv=("env",)))
    names = dict(line.split("=", 1) for line in done.stdout.decode().splitlines())
    shell = names.pop("SHELL")
    assert shell.startswith("/")
    assert names == {
        **{"HOME": "/root", "USER": "root", "LOGNAME": "root"},
        **{"PATH": STANDARD_PATH, "LANG": "C.UTF-8"},
    }


@pytest.fixture
def agent(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An ssh-agent that holds the lab's key."""
    with ssh_agent(lab.host.identity_file, tmp_path / "agent", monkeypatch) as socket:
        yield socket


async def test_key_of_the_agent(lab: Lab, pool: Pool, agent: Path) -> None:
    """Without an identity file the agent's keys let us in."""
    transport = pool.transport(container(replace(host_of(lab), identity_file=None)))
    assert (await transport.run(ECHO)).stdout == b"here\n"


async def test_through_a_chain_of_jumps(lab: Lab, pool: Pool, agent: Path, tmp_path: Path) -> None:
    """A host behind two jumps is reached through both, each of them trusted by its key."""
    known = tmp_path / "known_hosts"
    trusted = lab.host.known_hosts.read_text()
    known.write_text(trusted + trusted.replace(lab.host.address, "localhost"))
    jump = f"root@localhost:{lab.host.port}"
    host = replace(host_of(lab), proxy_jump=f"{jump},{jump}", known_hosts=str(known))
    assert (await pool.transport(container(host)).run(ECHO)).stdout == b"here\n"
    await connections_become(lab, 3)
    assert await untrusted_key(host) is None


async def test_jump_that_is_not_trusted(lab: Lab, pool: Pool, agent: Path, tmp_path: Path) -> None:
    """An unknown key of a jump stops the way there, and the sentence names the jump's address."""
    own = f"root@localhost:{lab.host.port}"
    host = replace(host_of(lab), proxy_jump=own)
    error = await refusal(pool, container(host))
    assert isinstance(error, HostKeyRefused)
    assert f"localhost:{lab.host.port}" in str(error)
    key = await untrusted_key(host)
    assert key is not None
    assert (key.known_as, key.known) == (f"[localhost]:{lab.host.port}", ())


async def test_as_another_user_inside(lab: Lab, pool: Pool) -> None:
    """`user` of a target is who runs inside, whoever logs in to the host."""
    target = replace(container(host_of(lab)), user="nobody")
    done = await pool.transport(target).run(Command(argv=("id", "-un")))
    assert done.stdout == b"nobody\n"
    assert os.geteuid() == 0


async def test_algorithms_of_the_configuration_are_used(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What ssh's configuration asks for is what the connection has."""
    asked = {
        "Ciphers": "aes256-ctr",
        "MACs": "hmac-sha2-512",
        "KexAlgorithms": "ecdh-sha2-nistp384",
    }
    lines = "".join(f"{key} {value}\n" for key, value in asked.items())
    configured(tmp_path, monkeypatch, lines)
    connection = await connect(host_of(lab), Door())
    try:
        told = connection._connection.get_extra_info  # type: ignore[attr-defined]
        assert (told("send_cipher"), told("send_mac")) == ("aes256-ctr", "hmac-sha2-512")
    finally:
        await connection.close()


async def test_algorithms_that_nobody_here_has_are_refused_by_name(lab: Lab) -> None:
    """Which option allows nothing, for which host, and what could be added to it."""
    settings = replace(await resolve(host_of(lab)), algorithms={"kexalgorithms": ("kex-of-2040",)})
    with pytest.raises(Unreachable, match="only the KexAlgorithms kex-of-2040, and") as caught:
        to_use("pve1", settings, ((), (), ()))
    assert "Add one of these to KexAlgorithms" in str(caught.value)


async def test_no_empty_packet_travels_before_each_other_one(lab: Lab) -> None:
    """Twenty writes are twenty packets, and perhaps a sign of life; what was written arrives."""
    connection = await connect(host_of(lab), Door())
    try:
        channel = await connection.start(b"cat", "pve1")
        own = connection._connection  # type: ignore[attr-defined]
        before = own._send_seq
        for _ in range(20):
            await channel.write(b"x")
        assert 20 <= own._send_seq - before < 30
        await channel.close_stdin()
        came = b""
        async with asyncio.timeout(DEADLINE_S):
            while part := await channel.read():
                came += part
        assert came == b"x" * 20
    finally:
        await connection.close()


class LateDoor(Door):
    """The door of a host that is away for a while."""

    async def open(self, hostname: str, port: int) -> socket.socket:
        await asyncio.sleep(AWAY_S)
        return await super().open(hostname, port)


async def test_a_host_that_comes_back_late_has_all_its_time_to_let_us_in(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was waited for it is not taken from what a slow host needs for the handshake."""
    monkeypatch.setattr("orchestrator.transport.ssh.connecting.MET_WITHIN_S", WAITS_S)
    monkeypatch.setattr("orchestrator.transport.ssh.connecting.CONNECT_WITHIN_S", WAITS_S)
    with TcpProxy(lab.host.address, lab.host.port) as proxy:
        lab.host.trust_at("127.0.0.1", proxy.port)
        host, door = replace(host_of(lab), hostname="127.0.0.1", port=proxy.port), LateDoor()
        proxy.stall()
        connecting = asyncio.ensure_future(connect(host, door))
        await asyncio.sleep(AWAY_S * 2)
        proxy.resume()
        await (await connecting).close()
        door.close()


async def test_a_host_that_stays_away_is_told_of(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is waited for no longer than that."""
    monkeypatch.setattr("orchestrator.transport.ssh.connecting.MET_WITHIN_S", 0.1)
    with pytest.raises(Unreachable, match="no answer in time"):
        await connect(host_of(lab), LateDoor())
