"""Keys: those that we show, those that hosts show, and which of these known_hosts accepts."""

import base64
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh

from orchestrator.transport.openssh import SshSettings

Trusted = tuple[Sequence[Any], ...]
"""Keys of the host, of authorities, revoked ones, and four of X.509: asyncssh's own form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostKey:
    """A key that a host showed, not trusted by anything yet."""

    address: str
    """HOST:PORT that showed it."""
    key_type: str
    fingerprint: str
    """As `ssh` prints it: SHA256:..."""
    known_hosts_line: str
    known_hosts_file: str
    """Where the line belongs."""
    known_as: str
    """The name in front of the line."""
    known: tuple[str, ...]
    """Fingerprints that known_hosts has for it: with any, the key has changed."""


class Witness(asyncssh.SSHClient):
    """Sees the key that known_hosts did not accept."""

    refused: asyncssh.SSHKey | None = None

    def validate_host_public_key(
        self, host: str, addr: str, port: int, key: asyncssh.SSHKey
    ) -> bool:
        del host, addr, port
        self.refused = key
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """What we may show of ourselves."""

    pairs: list[asyncssh.SSHKeyPair]
    identities: list[bytes]
    """Public halves, for an agent that may offer these only."""


def own_keys(settings: SshSettings) -> tuple[Keys, list[str]]:
    """Keys of the identity files, and why some of them cannot be used."""
    pairs: list[asyncssh.SSHKeyPair] = []
    identities: list[bytes] = []
    complaints: list[str] = []
    certificates = [name for name in settings.certificate_files if Path(name).is_file()]
    for name in settings.identity_files:
        public = Path(name if name.endswith(".pub") else f"{name}.pub")
        with contextlib.suppress(OSError, asyncssh.KeyImportError):
            identities.append(asyncssh.read_public_key(public).public_data)
        if not Path(name).is_file() or name.endswith(".pub"):
            continue
        try:
            pairs += asyncssh.load_keypairs(name, certlist=certificates)
        except asyncssh.KeyEncryptionError:
            complaints.append(f"{name} has a passphrase")
        except (OSError, ValueError) as exc:
            locked = "passphrase" in str(exc).lower()
            complaints.append(f"{name} has a passphrase" if locked else f"{name}: {exc}")
    identities += [pair.public_data for pair in pairs]
    return Keys(pairs=pairs, identities=identities), complaints


def trusted_keys(settings: SshSettings) -> Trusted:
    """What known_hosts holds for this host, by its name and never by its address alone."""
    known = asyncssh.SSHKnownHosts()
    for name in settings.known_hosts:
        try:
            lines = Path(name).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue  # ssh too takes a missing file for an empty one
        for line in lines:
            with contextlib.suppress(ValueError):  # as ssh does, past lines of no sense
                known.load(line)
    port = settings.port if settings.port != asyncssh.DEFAULT_PORT else None
    return known.match(settings.host_key_alias or settings.hostname, "", port)


def kinds_to_ask(trusted: Trusted) -> list[str] | tuple[()]:
    """Kinds of host keys to ask for: known ones first, and the others as well.

    Left to itself asyncssh asks for known ones alone, and a host that was set up anew with
    another kind just hangs up.
    """
    keys, authorities = trusted[:2]
    if not keys and not authorities:
        return ()
    certificates = asyncssh.public_key.get_default_certificate_algs() if authorities else []
    known = [kind for key in keys for kind in key.sig_algorithms]
    usual = asyncssh.public_key.get_default_public_key_algs()
    return list(dict.fromkeys(kind.decode() for kind in [*certificates, *known, *usual]))


def shown(settings: SshSettings, key: asyncssh.SSHKey) -> HostKey:
    """A key that was refused, as a person compares it, and the line that would trust it."""
    name = settings.host_key_alias or settings.hostname
    where = name if settings.port == asyncssh.DEFAULT_PORT else f"[{name}]:{settings.port}"
    kind = key.get_algorithm()
    return HostKey(
        address=settings.address,
        key_type=kind,
        fingerprint=key.get_fingerprint(),
        known_hosts_line=f"{where} {kind} {base64.b64encode(key.public_data).decode()}",
        known_hosts_file=settings.known_hosts[0],
        known_as=where,
        known=tuple(old.get_fingerprint() for old in trusted_keys(settings)[0]),
    )
