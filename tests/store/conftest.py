"""A real SQLite store in a temporary folder, on the real clock."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from orchestrator.clock import SystemClock
from orchestrator.store import Store


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """An empty store."""
    opened = await Store.open(tmp_path / "state", SystemClock())
    yield opened
    await opened.close()
