"""Which algorithms a connection may use: those that ssh's configuration asks for, or our own order.

Owns the translation into asyncssh's names, which are OpenSSH's. Opens no connection.
"""

from collections.abc import Sequence
from typing import TypedDict

import asyncssh
from asyncssh.encryption import get_encryption_algs
from asyncssh.kex import get_kex_algs
from asyncssh.mac import get_mac_algs

from orchestrator.core.errors import Unreachable
from orchestrator.transport.openssh import SshSettings
from orchestrator.transport.ssh.keys import Trusted, kinds_to_ask

_CIPHERS_FIRST = "^*-gcm@openssh.com"
"""In Python these cost a fifth of what asyncssh would take, chacha20; the others stay."""

_CERTIFICATE = "-cert-v01@openssh.com"


class Algorithms(TypedDict):
    """As asyncssh takes them; an empty one is its own choice."""

    encryption_algs: str | Sequence[str]
    mac_algs: Sequence[str]
    kex_algs: Sequence[str]
    server_host_key_algs: Sequence[str]


def to_use(host: str, settings: SshSettings, trusted: Trusted) -> Algorithms:
    """The algorithms for one hop; Unreachable where of those that are asked for none is known."""
    asked = settings.algorithms

    def known(option: str, ours: list[bytes]) -> tuple[str, ...]:
        names = asked.get(option.lower(), ())
        found = tuple(name for name in names if name.encode() in ours)
        if names and not found:
            raise Unreachable(
                f"{host}: ssh's configuration allows {settings.address} only the {option}"
                f" {', '.join(names)}, and orch has none of them.",
                target=host,
                remedy=f"Add one of these to {option} for it:"
                f" {', '.join(name.decode() for name in ours[:8])}.",
            )
        return found

    kinds = [
        *asyncssh.public_key.get_public_key_algs(),
        *asyncssh.public_key.get_certificate_algs(),
    ]
    host_keys = known("HostKeyAlgorithms", kinds)
    if not trusted[1]:  # no authority is trusted: the plain key is asked for, as ssh falls back to
        host_keys = tuple(kind for kind in host_keys if not kind.endswith(_CERTIFICATE))
    return Algorithms(
        encryption_algs=known("Ciphers", get_encryption_algs()) or _CIPHERS_FIRST,
        mac_algs=known("MACs", get_mac_algs()),
        kex_algs=known("KexAlgorithms", get_kex_algs()),
        server_host_key_algs=host_keys or kinds_to_ask(trusted),
    )
