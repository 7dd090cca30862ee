"""What `ssh` itself would do for a host: ~/.ssh/config, jumps, keys, known hosts, by `ssh -G`.

Owns the reading of OpenSSH's settings, and which of them orch cannot honour. Opens no connection.
"""

import asyncio
import getpass
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from orchestrator.core.errors import AuthRefused, Unreachable
from orchestrator.core.model import Host
from orchestrator.core.runtimes import ssh_destination, ssh_words

RESOLVE_WITHIN_S = 20.0
MOST_JUMPS = 8

_DEFAULT_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")
_GLOBAL_KNOWN_HOSTS = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")

_ALGORITHMS = frozenset({"ciphers", "macs", "kexalgorithms", "hostkeyalgorithms"})
_HONOURED_ONLY_AS: dict[str, frozenset[str]] = {
    "stricthostkeychecking": frozenset({"ask", "yes", "true"}),
    "knownhostscommand": frozenset({"none"}),
    "revokedhostkeys": frozenset({"none"}),
    "pkcs11provider": frozenset({"none"}),
    "hostbasedauthentication": frozenset({"no"}),
    "verifyhostkeydns": frozenset({"no", "false"}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SshSettings:
    """One hop as asyncssh needs it."""

    hostname: str
    port: int
    user: str
    identity_files: tuple[str, ...] = ()
    certificate_files: tuple[str, ...] = ()
    identities_only: bool = False
    agent: str | None = None
    """Path of the agent's socket."""
    host_key_alias: str | None = None
    known_hosts: tuple[str, ...] = ()
    """The user's files first; some may not be there."""
    proxy_command: str | None = None
    jumps: tuple["SshSettings", ...] = ()
    """In the order in which they are passed."""
    algorithms: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By `ciphers`, `macs`, `kexalgorithms` and `hostkeyalgorithms`; only what was configured."""
    not_honoured: tuple[str, ...] = ()
    """Settings of ~/.ssh/config that orch does not obey, as `Name value`."""

    @property
    def address(self) -> str:
        """HOST:PORT for a sentence."""
        return f"{self.hostname}:{self.port}"


async def resolve(host: Host) -> SshSettings:
    """The settings for a host of the inventory; its own keys go before ~/.ssh/config.

    A `known_hosts` of the inventory speaks for the jumps as well. Unreachable where ssh finds
    fault with its configuration, AuthRefused where the inventory's key is not there.
    """
    if host.identity_file is not None and not Path(host.identity_file).is_file():
        # ssh only warns, and goes on with keys that nobody asked for.
        raise AuthRefused(
            f"{host.name}: its identity_file {host.identity_file} is not there.",
            target=host.name,
            remedy="Correct identity_file in the inventory, or leave it out.",
        )
    settings = await _resolve(host.name, ssh_words(host), ssh_destination(host), host.known_hosts)
    if settings is None:
        return _without_client(host)
    usual = _algorithms(await _ask_ssh(host.name, ["-F", os.devnull, "-G", "--", "host"]) or "")
    hops = tuple(_without(usual, hop) for hop in settings.jumps)
    return replace(_without(usual, settings), jumps=hops)


def _without(usual: Mapping[str, tuple[str, ...]], settings: SshSettings) -> SshSettings:
    """The algorithms that are ssh's own choice are nobody's wish."""
    asked = {key: names for key, names in settings.algorithms.items() if usual.get(key) != names}
    return replace(settings, algorithms=asked)


async def _resolve(
    name: str, words: Sequence[str], destination: str, known_hosts: str | None, depth: int = 0
) -> SshSettings | None:
    """None where there is no ssh client here."""
    if depth > MOST_JUMPS:
        raise Unreachable(
            f"{name}: ProxyJump leads over more than {MOST_JUMPS} hosts.",
            target=name,
            remedy="Look for a circle in ~/.ssh/config.",
        )
    text = await _ask_ssh(name, ["-G", *words, "--", destination])
    if text is None:
        return None
    settings = _settings(text, known_hosts)
    jumps: list[SshSettings] = []
    for number, hop in enumerate(_hops(text)):
        found = await _resolve(name, *_hop_words(hop), known_hosts, depth + 1)
        assert found is not None
        # As with `ssh -J a,b`: only the first hop's own ProxyJump counts.
        jumps += [*(found.jumps if number == 0 else ()), replace(found, jumps=())]
    return replace(settings, jumps=tuple(jumps))


async def _ask_ssh(name: str, words: list[str]) -> str | None:
    try:
        child = await asyncio.create_subprocess_exec(
            *("ssh", *words),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except FileNotFoundError:
        return None
    try:
        async with asyncio.timeout(RESOLVE_WITHIN_S):
            output, errors = await child.communicate()
    except TimeoutError as exc:
        child.kill()
        await child.wait()
        raise Unreachable(
            f"{name}: `ssh -G` gave no answer within {RESOLVE_WITHIN_S:g} s.",
            target=name,
            remedy="Look for a slow `Match exec` in ~/.ssh/config.",
        ) from exc
    if child.returncode != 0:
        raise Unreachable(
            f"{name}: ssh cannot make out how to reach it: "
            f"{errors.decode(errors='replace').strip()}.",
            target=name,
            remedy=f"Try `ssh {' '.join(words)}` and mend ~/.ssh/config.",
        )
    return output.decode(errors="replace")


def _lines(text: str) -> list[tuple[str, str]]:
    pairs = (line.partition(" ") for line in text.splitlines())
    return [(key.lower(), value.strip()) for key, _, value in pairs]


def _settings(text: str, known_hosts: str | None = None) -> SshSettings:
    """What `ssh -G` printed; `known_hosts` in the place of the user's own files."""
    pairs = _lines(text)
    one = dict(pairs)
    alias = one.get("hostkeyalias", "none")
    # ssh prints these without quotes, so a name with a space in it is not to be read back.
    users = [known_hosts] if known_hosts else one.get("userknownhostsfile", "").split()
    tokens = {
        "%d": str(Path.home()),
        "%h": one["hostname"],
        "%n": one.get("host", one["hostname"]),
        "%p": one["port"],
        "%r": one["user"],
        "%u": getpass.getuser(),
    }
    command = one.get("proxycommand", "none")
    return SshSettings(
        hostname=one["hostname"],
        port=int(one["port"]),
        user=one["user"],
        identity_files=_paths((v for k, v in pairs if k == "identityfile"), tokens),
        certificate_files=_paths((v for k, v in pairs if k == "certificatefile"), tokens),
        identities_only=one.get("identitiesonly") == "yes",
        agent=_agent(one.get("identityagent", "SSH_AUTH_SOCK"), tokens),
        host_key_alias=None if alias == "none" else alias,
        known_hosts=_paths([*users, *one.get("globalknownhostsfile", "").split()], tokens),
        proxy_command=None if command == "none" else _expand(command, tokens),
        algorithms=_algorithms(text),
        not_honoured=tuple(
            f"{key} {value}"
            for key, value in pairs
            if key in _HONOURED_ONLY_AS and value not in _HONOURED_ONLY_AS[key]
        ),
    )


def _algorithms(text: str) -> dict[str, tuple[str, ...]]:
    """What `ssh -G` printed of them, `+`, `-` and `^` worked out by ssh."""
    return {key: tuple(value.split(",")) for key, value in _lines(text) if key in _ALGORITHMS}


def _expand(text: str, tokens: dict[str, str]) -> str:
    pieces = text.split("%%")
    for token, value in tokens.items():
        pieces = [piece.replace(token, value) for piece in pieces]
    return "%".join(pieces)


def _paths(names: Iterable[str], tokens: dict[str, str]) -> tuple[str, ...]:
    return tuple(str(Path(_expand(name, tokens)).expanduser()) for name in names if name != "none")


def _agent(named: str, tokens: dict[str, str]) -> str | None:
    if named == "none":
        return None
    if named == "SSH_AUTH_SOCK":
        return os.environ.get("SSH_AUTH_SOCK") or None
    if named.startswith("$"):
        return os.environ.get(named.strip("${}")) or None
    return str(Path(_expand(named, tokens)).expanduser())


def _hops(text: str) -> list[str]:
    jump = dict(_lines(text)).get("proxyjump", "none")
    return [] if jump == "none" else [hop.strip() for hop in jump.split(",")]


def _hop_words(hop: str) -> tuple[list[str], str]:
    """Options and destination of `[ssh://][user@]host[:port]`."""
    user, at, rest = hop.removeprefix("ssh://").rpartition("@")
    words = ["-l", user] if at else []
    if rest.startswith("["):
        name, _, port = rest[1:].partition("]")
        port = port.removeprefix(":")
    elif rest.count(":") == 1:
        name, _, port = rest.partition(":")
    else:
        name, port = rest, ""
    return ([*words, "-p", port] if port else words), name


def _without_client(host: Host) -> SshSettings:
    """OpenSSH's defaults, where there is no `ssh` to ask; ~/.ssh/config is not read then."""
    folder = Path.home() / ".ssh"
    keys = (host.identity_file,) if host.identity_file else ()
    own = (host.known_hosts,) if host.known_hosts else (str(folder / "known_hosts"),)
    hops = (host.proxy_jump or "").split(",") if host.proxy_jump else []
    jumps = tuple(_without_client(_hop_host(hop.strip(), host.known_hosts)) for hop in hops)
    return SshSettings(
        hostname=ssh_destination(host).lower(),
        port=host.port or 22,
        user=host.user or getpass.getuser(),
        identity_files=keys or tuple(str(folder / name) for name in _DEFAULT_KEYS),
        agent=os.environ.get("SSH_AUTH_SOCK") or None,
        known_hosts=(*own, *_GLOBAL_KNOWN_HOSTS),
        jumps=jumps,
        not_honoured=("~/.ssh/config: there is no ssh client here to read it",),
    )


def _hop_host(hop: str, known_hosts: str | None) -> Host:
    words, name = _hop_words(hop)
    said = dict(zip(words[::2], words[1::2], strict=True))
    port = said.get("-p")
    return Host(
        name=name,
        user=said.get("-l"),
        port=int(port) if port else None,
        known_hosts=known_hosts,
    )
