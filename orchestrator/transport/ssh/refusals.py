"""Every error of asyncssh -> a TargetError that says what, where and the remedy."""

from collections.abc import Iterator
from contextlib import contextmanager

import asyncssh

from orchestrator.core.errors import AuthRefused, HostKeyRefused, Unreachable
from orchestrator.transport.openssh import SshSettings
from orchestrator.transport.socket_words import in_words
from orchestrator.transport.ssh.keys import Trusted, Witness


@contextmanager
def translated(
    name: str,
    settings: SshSettings,
    witness: Witness | None = None,
    trusted: Trusted | None = None,
    complaints: list[str] | None = None,
) -> Iterator[None]:
    """Errors inside become TargetErrors; a refused channel (ChannelOpenError) stays what it is."""
    where = f"{name} ({settings.address})" if settings.hostname != name else settings.address
    try:
        yield
    except asyncssh.HostKeyNotVerifiable as exc:
        raise _host_key_refused(name, where, settings, witness, trusted, str(exc)) from exc
    except asyncssh.PermissionDenied as exc:
        why = "".join(f" ({complaint})" for complaint in complaints or [])
        raise AuthRefused(
            f"{where} refuses every key of ours for user {settings.user}{why}.",
            target=name,
            remedy=f"Try `ssh {settings.user}@{settings.hostname} -p {settings.port}`; "
            "set identity_file, load the key with ssh-add, or have it put into authorized_keys.",
        ) from exc
    except asyncssh.ChannelOpenError:
        raise
    except TimeoutError as exc:
        raise _unreachable(name, where, "no answer in time") from exc
    except OSError as exc:
        raise _unreachable(name, where, in_words(exc)) from exc
    except asyncssh.Error as exc:
        raise _unreachable(name, where, str(exc) or type(exc).__name__) from exc


def _unreachable(name: str, where: str, why: str) -> Unreachable:
    return Unreachable(
        f"{where} cannot be reached: {why}.",
        target=name,
        remedy="Is the host up, and the network (VPN) between?",
    )


def _host_key_refused(
    name: str,
    where: str,
    settings: SshSettings,
    witness: Witness | None,
    trusted: Trusted | None,
    why: str,
) -> HostKeyRefused:
    shown = witness.refused if witness is not None else None
    key = f" {shown.get_algorithm()} {shown.get_fingerprint()}" if shown else ""
    files = ", ".join(settings.known_hosts[:2])
    if trusted and trusted[0]:
        return HostKeyRefused(
            f"The host key of {where} has CHANGED{key}: it is not the one in {files}. "
            "The host was set up anew, or somebody is in between.",
            target=name,
            remedy="Compare the fingerprint with the host's own, then "
            f"`orch trust --replace {name}`.",
        )
    if shown:
        return HostKeyRefused(
            f"The host key of {where} is unknown:{key} is not in {files}.",
            target=name,
            remedy=f"Compare the fingerprint with the host's own, then `orch trust {name}`.",
        )
    return HostKeyRefused(
        f"The host key of {where} is refused: {why}.",
        target=name,
        remedy=f"Look at the lines for it in {files} (@revoked, @cert-authority).",
    )
