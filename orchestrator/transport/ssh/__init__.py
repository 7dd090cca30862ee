"""SSH by asyncssh: connections, channels, host keys. No other folder imports asyncssh.

Owns the translation of every asyncssh error into a TargetError with its remedy. Who shares a
connection is connections.py's, what ~/.ssh/config says is openssh.py's.

    connecting.py   the way to a host, past its jumps; a connection, left when it is stuck
    keys.py         keys of ours, keys of hosts, and which of them are trusted
    channel.py      one command on a connection
    refusals.py     an error of asyncssh -> what a person can do
"""

from orchestrator.transport.ssh.connecting import connect, untrusted_key
from orchestrator.transport.ssh.keys import HostKey

__all__ = ["HostKey", "connect", "untrusted_key"]
