"""The names that docker and podman have for their containers, by the id in a cgroup's path.

Reads the engines' own files, as root on the host may; runs nothing. Where they cannot be read, the
id stays the name.
"""

import json
import os
import re
from typing import Any

DOCKER = "/var/lib/docker/containers"
PODMAN = "/var/lib/containers/storage/overlay-containers/containers.json"
_ID = re.compile(r"[0-9a-f]{12,64}")

_known: dict[str, str] = {}


def name_of(container: str) -> str:
    """The name of a docker or podman container; anything else, and what has none, as it is."""
    if not _ID.fullmatch(container):
        return container
    if container not in _known:
        name = name_in(container, DOCKER, PODMAN)
        if name is None:
            # It may only just have been made; it is asked again.
            return container
        _known[container] = name
    return _known[container]


def name_in(container: str, docker: str, podman: str) -> str | None:
    """The name for a whole id in docker's folder of containers or in podman's list of them."""
    found = _read(os.path.join(docker, container, "config.v2.json"))
    name = found.get("Name") if isinstance(found, dict) else None
    if isinstance(name, str) and name:
        return name.lstrip("/")
    listed = _read(podman)
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, dict) and one.get("id") == container and one.get("names"):
            return str(one["names"][0])
    return None


def _read(path: str) -> Any:
    try:
        with open(path, "rb") as file:
            return json.loads(file.read())
    except (OSError, ValueError):
        return None
