"""The lab's host as an inventory has it: how the daemon's own code is told of it."""

from orchestrator.core.model import Host
from tests.lab.lab import Lab


def declared(lab: Lab) -> Host:
    """Reached as root, by the lab's own key and known_hosts."""
    return Host(
        name="pve1",
        hostname=lab.host.address,
        port=lab.host.port,
        user="root",
        identity_file=str(lab.host.identity_file),
        known_hosts=str(lab.host.known_hosts),
    )
