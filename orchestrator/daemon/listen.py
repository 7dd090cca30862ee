"""Where the daemon listens beside its socket."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Listen:
    """What `--listen` was told; nothing is listened on beside the socket without it."""

    address: str
    cert: str | None = None
    key: str | None = None
