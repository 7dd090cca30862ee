"""The zipapp: the same bytes from the same sources, and nothing in it that the far side lacks."""

import io
import subprocess
import sys
import zipfile
from pathlib import Path

from orchestrator.link.package import build, probe_package


def test_equal_sources_give_equal_bytes() -> None:
    """The digest names the sources: their order and the time of day change nothing."""
    one = build({"a.py": b"1", "b/c.py": b"2"})
    two = build({"b/c.py": b"2", "a.py": b"1"})
    assert one == two
    assert build({"a.py": b"1", "b/c.py": b"3"}).digest != one.digest


def test_what_is_inside() -> None:
    """The probe, libtmux and pynvml go in; libtmux's fixtures, which need pytest, do not."""
    with zipfile.ZipFile(io.BytesIO(probe_package().content)) as archive:
        names = set(archive.namelist())
    assert {
        *("__main__.py", "orchestrator/probe/serve.py", "orchestrator/probe/frames.py"),
        *("libtmux/server.py", "pynvml.py"),
    } <= names
    assert not [name for name in names if "pytest" in name or "/test/" in name]
    assert not [name for name in names if name.startswith("orchestrator/core")]


def test_it_runs_alone(tmp_path: Path) -> None:
    """It starts with neither site-packages nor our sources, and says how it is used."""
    path = tmp_path / "probe.pyz"
    path.write_bytes(probe_package().content)
    done = subprocess.run(
        [sys.executable, "-I", "-S", path],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 2
    assert "usage: probe.pyz" in done.stderr


def test_libraries_load_from_it(tmp_path: Path) -> None:
    """libtmux and pynvml can be imported from it, with nothing else installed."""
    path = tmp_path / "probe.pyz"
    path.write_bytes(probe_package().content)
    code = f"import sys; sys.path.insert(0, {str(path)!r}); import libtmux, pynvml; print('ok')"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("ok\n", "")
