"""The first thing that runs on a target: takes the probe in, once for each digest, and becomes it.

Its text travels in the command that starts the probe, so it stands alone.
Prints `orch need` where the file has to be sent, then `orch have`, or `orch failed WHY`.
"""

import hashlib
import os
import stat
import sys


def main(words: list[str]) -> None:
    """Make sure that the probe of a digest is here, and run it in this program's place."""
    digest, size, generation, key = words
    before = os.umask(0o077)  # whoever may write the file has the probe do what they like
    try:
        path = os.path.join(_folder(), digest + ".pyz")
        if not _holds(path, digest):
            _say("need")
            _store(path, digest, _read(int(size)))
    except (OSError, ValueError) as exc:
        _say(f"failed {exc}")
        sys.exit(1)
    _say("have")
    os.umask(before)
    serve = ["serve", "--generation", generation, "--key", key]
    os.execv(sys.executable, [sys.executable, "-I", "-S", path, *serve])  # noqa: S606  argv only


def _say(words: str) -> None:
    # The leading newline ends a line that something before us left open.
    sys.stdout.write(f"\norch {words}\n")
    sys.stdout.flush()


def _folder() -> str:
    home = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    folder = os.path.join(home, "orch", "probe")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except OSError:
        pass  # a home that is missing or read-only is common for service users
    folder = f"/var/tmp/orch-{os.getuid()}"  # noqa: S108  owner and mode are checked below
    os.makedirs(folder, mode=0o700, exist_ok=True)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise ValueError(f"{folder} is not this user's own folder")
    return folder


def _holds(path: str, digest: str) -> bool:
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest() == digest
    except FileNotFoundError:
        return False


def _read(size: int) -> bytes:
    content = bytearray()
    while len(content) < size:
        chunk = os.read(0, min(65536, size - len(content)))
        if not chunk:
            raise ValueError(f"only {len(content)} of {size} bytes came")
        content += chunk
    return bytes(content)


def _store(path: str, digest: str, content: bytes) -> None:
    if hashlib.sha256(content).hexdigest() != digest:
        raise ValueError("other bytes came than were announced")
    part = f"{path}.{os.getpid()}"
    try:
        with open(part, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError:
        if os.path.exists(part):
            os.unlink(part)
        raise


if __name__ == "__main__":
    main(sys.argv[1:])
