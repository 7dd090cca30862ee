"""What a program loads as it starts: the reading path little, each nothing of another's."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = frozenset(
    {
        *("asyncio", "aiohttp", "pydantic", "rich", "asyncssh", "textual", "sqlalchemy", "alembic"),
        *("torch", "ruamel", "paramiko", "libtmux", "apprise", "prometheus_client", "hyperscan"),
        *("http", "concurrent"),
    }
)


def loaded(code: str) -> set[str]:
    """Top-level names of the modules that a fresh interpreter has loaded after `code`."""
    script = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return {name.partition(".")[0] for name in json.loads(done.stdout.splitlines()[-1])}


@pytest.mark.parametrize(
    "module", ["status", "logs", "launch", "ship", "stop", "incidents", "check"]
)
def test_reading_path_loads_nothing_heavy(module: str) -> None:
    """status, ps, show, wait and the client side of run and deploy start quickly."""
    names = loaded(f"import orchestrator.cli.main, orchestrator.cli.{module}")
    assert not names & HEAVY


def test_the_search_finds_what_it_is_for() -> None:
    """A heavy module that is loaded is seen."""
    assert loaded("import asyncio") & HEAVY


def test_diagnose_needs_no_daemon_and_none_of_its_libraries() -> None:
    """A log is read without asyncio, the store or the transports."""
    names = loaded("import orchestrator.cli.diagnose")
    assert not names & (HEAVY - {"hyperscan"})


def test_an_inventory_without_rules_is_read_without_what_reads_logs(tmp_path: Path) -> None:
    """Each start of a daemon waits for the reader of its inventory, which needs no patterns."""
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text("version: 1\nhosts: {here: {transport: local}}\n")
    names = loaded(f"""
from pathlib import Path
from orchestrator.daemon.inventory_reading import read_inventory
assert list(read_inventory(Path({str(inventory)!r})).hosts) == ["here"]
""")
    assert "pydantic" in names
    assert "hyperscan" not in names


def test_trainer_loads_neither_sibling() -> None:
    """The trainer is shipped alone, to where no textual and no orchestrator are."""
    assert not loaded("import trainer") & {"orchestrator", "tui", "textual", "rich"}


def test_dashboard_loads_no_transport_and_no_torch() -> None:
    """The dashboard talks to the daemon only."""
    assert not loaded("import tui") & {"asyncssh", "sqlalchemy", "torch", "trainer"}


def test_an_idle_daemon_has_loaded_nothing_that_it_does_not_need(tmp_path: Path) -> None:
    """An inventory of local targets and a new database take no ssh, YAML, shapes or Alembic."""
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text(
        "version: 1\nhosts: {here: {transport: local}}\ntargets: {local: {host: here}}\n"
    )
    begun = f"""
import asyncio
from pathlib import Path
from orchestrator.api.location import locate
from orchestrator.clock import SystemClock
from orchestrator.daemon.inventory_file import InventoryFile
from orchestrator.daemon.serving import Parts

async def live():
    path = Path({str(inventory)!r})
    file = InventoryFile(path, path.with_suffix(".kept"))
    env = {{"XDG_STATE_HOME": {str(tmp_path)!r}, "XDG_RUNTIME_DIR": {str(tmp_path)!r}}}
    async with Parts.open(locate(path, env), file, SystemClock()) as parts:
        await parts.crew.resume()
        assert list(parts.inventory.targets) == ["local"]
        assert not await parts.store.runs.list()

asyncio.run(live())
"""
    names = loaded(begun)
    assert {"sqlalchemy", "aiohttp"} <= names
    assert not names & {
        *("alembic", "apprise", "asyncssh", "cryptography", "mako", "paramiko", "pathspec"),
        *("prometheus_client", "psycopg", "pydantic", "pydantic_core", "rich", "ruamel"),
        *("textual", "torch", "libtmux", "pynvml", "jsonschema", "numpy", "shtab"),
    }
