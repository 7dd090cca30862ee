"""Many bytes to a real sshd: what arrives is what was written, whatever the connection is doing."""

import asyncio
import hashlib
import random
from pathlib import Path

import asyncssh
import pytest

from orchestrator.transport.door import Door
from orchestrator.transport.ssh.channel import SshChannel
from orchestrator.transport.ssh.connecting import connect
from orchestrator.transport.ssh.packets import Packets
from tests.lab.lab import Lab
from tests.transport.test_openssh import configured
from tests.transport.test_ssh import DEADLINE_S, host_of

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("lab-ssh")]

SIZES = (1, 0, 32_767, 32_768, 32_769, 65_537, 3_000_001, 7, 262_144 + 32_768, 5_000_000)
"""Around what fits into a packet, a call to the kernel and a window."""


@pytest.mark.parametrize("rekey_bytes", [2**30, 2_000_000, 300_000])
@pytest.mark.parametrize(
    ("cipher", "packs"),
    [("", True), ("chacha20-poly1305@openssh.com", False), ("aes256-ctr", False)],
)
async def test_what_is_written_arrives(
    lab: Lab,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cipher: str,
    packs: bool,
    rekey_bytes: int,
) -> None:
    """Writes of all sizes arrive in order, while keys are renewed too, and with other ciphers."""
    if cipher:
        configured(tmp_path, monkeypatch, f"Ciphers {cipher}\n")
    wanted = hashlib.sha256()
    connection = await connect(host_of(lab), Door())
    try:
        connection._connection._rekey_bytes = rekey_bytes  # type: ignore[attr-defined]
        channel = await connection.start(b"sha256sum", "pve1")
        async with asyncio.timeout(DEADLINE_S):
            for number, size in enumerate(SIZES):
                content = random.Random(number).randbytes(size)
                wanted.update(content)
                await channel.write(content)
            await channel.close_stdin()
            said = await channel.read()
        assert said.decode().split()[0] == wanted.hexdigest()
        assert isinstance(channel, SshChannel)
        packed_bytes = channel._packets.sent
        # Close to a renewal asyncssh sends, and so it may do all of the smallest.
        least_bytes = 1_000_000 if packs and rekey_bytes > 300_000 else 0
        assert least_bytes <= packed_bytes <= (sum(SIZES) if packs else 0)
    finally:
        await connection.close()


async def test_what_the_window_takes_is_packed_here(lab: Lab) -> None:
    """A megabyte that the window takes is packed here to its last byte, and understood there."""
    connection = await connect(host_of(lab), Door())
    try:
        own: asyncssh.SSHClientConnection = connection._connection  # type: ignore[attr-defined]
        child: asyncssh.SSHClientProcess[bytes] = await own.create_process("wc -c", encoding=None)
        packets, content = Packets(child.channel), bytes(1_000_001)
        sent = 0
        while (taken := packets.send(memoryview(content)[sent:])) > 0:
            sent += taken
        child.stdin.write_eof()
        async with asyncio.timeout(DEADLINE_S):
            assert int(await child.stdout.read()) == sent == len(content)
    finally:
        await connection.close()
