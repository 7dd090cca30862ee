"""The probe as one file: a zipapp of orchestrator/probe with libtmux and pynvml inside.

Owns what goes in and that equal sources give equal bytes. Knows nothing of targets.
"""

import functools
import hashlib
import importlib.util
import io
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

_MAIN = b"import sys\n\nfrom orchestrator.probe.__main__ import main\n\nsys.exit(main())\n"
_PACKAGE = b'"""The part of orch that runs on a target."""\n'
_LEFT_OUT = frozenset({"pytest_plugin.py", "test", "__pycache__"})
"""Of libtmux: its fixtures, which need pytest."""

_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbePackage:
    """The bytes of probe.pyz and their SHA-256, hex."""

    digest: str
    content: bytes


@functools.cache
def probe_package() -> ProbePackage:
    """The package of the installed sources, built once in a daemon's life."""
    return build({**_tree("orchestrator.probe"), **_tree("libtmux"), **_module("pynvml")})


def build(sources: dict[str, bytes]) -> ProbePackage:
    """A zipapp of modules by their path inside; equal sources give equal bytes."""
    files = {"__main__.py": _MAIN, "orchestrator/__init__.py": _PACKAGE, **sources}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(files):
            member = zipfile.ZipInfo(name, date_time=_EPOCH)
            member.compress_type = zipfile.ZIP_DEFLATED
            member.create_system = 3
            member.external_attr = 0o644 << 16
            archive.writestr(member, files[name])
    content = buffer.getvalue()
    return ProbePackage(digest=hashlib.sha256(content).hexdigest(), content=content)


def _tree(package: str) -> dict[str, bytes]:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"the probe needs {package}; install orch's dependencies")
    root = Path(spec.submodule_search_locations[0])
    inside = PurePosixPath(*package.split("."))
    return {
        str(inside / path.relative_to(root).as_posix()): path.read_bytes()
        for path in root.rglob("*")
        if path.suffix in {".py", ".sh"} and not _LEFT_OUT & set(path.relative_to(root).parts)
    }


def _module(name: str) -> dict[str, bytes]:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"the probe needs {name}; install orch's dependencies")
    return {f"{name}.py": Path(spec.origin).read_bytes()}
