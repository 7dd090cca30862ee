"""pyinfra and Ansible, installed in an environment of their own, each copying the same package.

Neither enters a container by itself, so that both copy to its host: a shorter way than the others'.
"""

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from bench.deploy.ways import Way, run
from tests.lab.lab import Lab

PACKAGES = ("pyinfra>=3", "ansible-core>=2.15")
_INSTALL_WITHIN_S = 300.0


def installed() -> Path | None:
    """The folder of their programs, made at the first call; None where they cannot be had."""
    folder = Path(tempfile.gettempdir()) / "orch-bench-peers"
    programs = folder / "bin"
    if not (programs / "pyinfra").exists():
        venv.create(folder, with_pip=True)
        argv = [str(programs / "pip"), "install", "-q", *PACKAGES]
        try:
            subprocess.run(argv, check=True, capture_output=True, timeout=_INSTALL_WITHIN_S)
        except subprocess.SubprocessError as error:
            print(f"no pyinfra and no Ansible: {error}", file=sys.stderr)
            return None
    return programs


def ways(lab: Lab, package: Path, scratch: Path, programs: Path) -> dict[str, Way]:
    """A way for each of the two."""
    host, quiet = lab.host, {"ANSIBLE_LOCALHOST_WARNING": "0", "ANSIBLE_DEPRECATION_WARNINGS": "0"}
    options = f"-o UserKnownHostsFile={host.known_hosts}"
    inventory = scratch / "hosts.ini"
    inventory.write_text(
        f"[all]\npve1 ansible_host={host.address} ansible_port={host.port} ansible_user=root "
        f"ansible_ssh_private_key_file={host.identity_file} ansible_ssh_common_args='{options}'\n"
    )
    hosts = scratch / "peers_inventory.py"
    hosts.write_text(
        f"hosts = [({host.address!r}, {{'ssh_port': {host.port}, 'ssh_user': 'root', "
        f"'ssh_key': {str(host.identity_file)!r}, "
        f"'ssh_known_hosts_file': {str(host.known_hosts)!r}}})]\n"
    )
    deploy = scratch / "peers_deploy.py"
    there = scratch / "on-host"
    deploy.write_text(
        "from pyinfra.operations import files\n"
        f"files.sync(src={str(package)!r}, dest={str(there / 'pyinfra')!r}, delete=True)\n"
    )
    copy = f"src={package}/ dest={there / 'ansible'}/"
    env = {**os.environ, **quiet, "PATH": f"{programs}:{os.environ['PATH']}"}
    ansible = [str(programs / "ansible"), "all", "-i", str(inventory), "-m", "copy", "-a", copy]
    pyinfra = [str(programs / "pyinfra"), "-y", str(hosts), str(deploy)]
    return {
        "pyinfra": lambda: run(pyinfra, env=env),
        "Ansible": lambda: run(ansible, env=env),
    }
