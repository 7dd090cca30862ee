"""trust: show the keys on the way to a host, and write them to known_hosts when told.

Nothing is written without a word of the person: an answer on a terminal, or --yes. A key that is
not the known one is taken with --replace only.
"""

import argparse
import asyncio
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.cli import output
from orchestrator.cli.asking import answer
from orchestrator.cli.targets import host_of
from orchestrator.core.errors import HostKeyRefused, OrchError, UsageError
from orchestrator.core.model import Host

if TYPE_CHECKING:
    from orchestrator.transport.ssh import HostKey

MOST_HOPS = 10


def trust(options: argparse.Namespace) -> int:
    """Walk the way to a host, its jumps first; 0 once every key on it is trusted."""
    from orchestrator.transport.ssh import untrusted_key

    host = host_of(options, options.host)
    if host.transport == "local":
        raise UsageError(f"{options.host} is this machine: there is no key to trust.")
    written = 0
    while (key := asyncio.run(untrusted_key(host))) is not None:
        if written == MOST_HOPS:
            raise OrchError(
                f"{key.known_hosts_file} was written, and {key.address} still is not trusted.",
                remedy="Look there for a line of the same host that comes before.",
            )
        _accept(options, host, key)
        written += 1
    if not written:
        output.say(f"{options.host} is trusted already; nothing was written")
    return 0


def _accept(options: argparse.Namespace, host: Host, key: "HostKey") -> None:
    """Show one key, ask where nobody has said yes, and write it."""
    if key.known and not options.replace:
        raise HostKeyRefused(
            f"The host key of {key.address} has CHANGED: it shows {key.key_type} "
            f"{key.fingerprint}, and {key.known_hosts_file} has {', '.join(key.known)}. "
            "Nothing was written.",
            target=host.name,
            remedy="Only where the host was set up anew: compare the fingerprint with its own, "
            f"then `orch trust --replace {options.host}`.",
        )
    output.say(
        f"{key.address} shows the key",
        f"  {key.key_type} {key.fingerprint}",
        "on the host itself this prints the same:",
        "  for key in /etc/ssh/ssh_host_*_key.pub; do ssh-keygen -lf $key; done",
    )
    if not options.yes and not _asked(f"Write it to {key.known_hosts_file}? [y/N] "):
        raise HostKeyRefused(
            f"{key.address} is not trusted; nothing was written.",
            target=host.name,
            remedy=f"`orch trust --yes {options.host}` writes the key without asking.",
        )
    _write(key)
    output.say(f"{key.known_as} is trusted: one line more in {key.known_hosts_file}")


def _asked(question: str) -> bool:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    return answer(question).lower() in {"y", "yes"}


def _write(key: "HostKey") -> None:
    path = Path(key.known_hosts_file)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if key.known and path.exists():
        _forget(key, path)
    path.touch(mode=0o600)
    with path.open("r+", encoding="utf-8", errors="surrogateescape", newline="") as file:
        # A last line without its end would swallow ours.
        torn = not (file.read() or "\n").endswith("\n")
        file.write(("\n" if torn else "") + f"{key.known_hosts_line}\n")


def _forget(key: "HostKey", path: Path) -> None:
    """Take the host's old lines out, hashed ones too; the old file stays beside it as `.old`."""
    words = ["ssh-keygen", "-q", "-R", key.known_as, "-f", str(path)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=30)
        failed = done.stderr if done.returncode else ""
    except OSError as error:
        failed = str(error)
    if failed:
        raise OrchError(
            f"The old key could not be taken out of {path}: {failed.strip()}.",
            remedy=f"Remove the lines of {key.known_as} there by hand, then try again.",
        )
