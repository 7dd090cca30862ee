"""An asyncssh that names its inner parts otherwise: all goes by asyncssh itself, and arrives."""

import subprocess
import sys
from pathlib import Path

import pytest

SENT = """
import asyncio, hashlib, re, sys
from importlib.machinery import PathFinder, SourceFileLoader

name = sys.argv[1]

class Loader(SourceFileLoader):
    def get_code(self, fullname):
        text = self.get_data(self.path).decode()
        return compile(re.sub(rf"\\b{name}\\b", "another_name", text), self.path, "exec")

class Finder:
    @staticmethod
    def find_spec(fullname, path=None, target=None):
        spec = PathFinder.find_spec(fullname, path, target)
        if fullname.partition(".")[0] == "asyncssh" and isinstance(
            getattr(spec, "loader", None), SourceFileLoader
        ):
            spec.loader = Loader(fullname, spec.origin)
        return spec

if name != "nothing":
    sys.meta_path.insert(0, Finder)

import asyncssh
from orchestrator.transport.ssh.channel import SshChannel

class Server(asyncssh.SSHServer):
    def begin_auth(self, username):
        return False

async def digest(child):
    child.stdout.write(hashlib.sha256(await child.stdin.read()).hexdigest().encode())
    child.exit(0)

async def main():
    key = asyncssh.generate_private_key("ssh-ed25519")
    listener = await asyncssh.listen(
        "127.0.0.1", 0, server_host_keys=[key], server_factory=Server,
        process_factory=digest, encoding=None, config=None,
    )
    connection = await asyncssh.connect(
        "127.0.0.1", listener.get_port(), known_hosts=None, username="x", client_keys=None,
        config=None, agent_path=None, encryption_algs=["aes256-gcm@openssh.com"],
        compression_algs=["none"],
    )
    channel = SshChannel(await connection.create_process("x", encoding=None), "there")
    content = bytes(range(256)) * 4000
    async with asyncio.timeout(60):
        await channel.write(content)
        await channel.close_stdin()
        said = await channel.read()
    assert said.decode() == hashlib.sha256(content).hexdigest()
    print("packed" if channel._packets.sent else "left to asyncssh")
    connection.close()
    listener.close()

asyncio.run(main())
"""
NAMES = ("_send_window", "_rekey_bytes_sent", "GCMEncryption", "_update_iv", "MSG_CHANNEL_DATA")


@pytest.mark.parametrize("name", ["nothing", *NAMES])
def test_a_name_that_is_not_there_leaves_all_to_asyncssh(name: str) -> None:
    """What it is called by no code here may be called anything; the bytes arrive either way."""
    done = subprocess.run(
        [sys.executable, "-c", SENT, name],
        check=False,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr
    not_used = {"nothing", "MSG_CHANNEL_DATA"}
    assert done.stdout == ("packed\n" if name in not_used else "left to asyncssh\n")
