"""The whole program, as the acceptance tests have it."""

import pytest

from tests.acceptance.conftest import make_orch

__all__ = ["make_orch"]


@pytest.fixture(scope="session")
def nursery() -> None:
    """Command lines, environments and modes are looked at: each command is a Python that starts."""
