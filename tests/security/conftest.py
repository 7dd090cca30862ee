"""The whole program, as the acceptance tests have it."""

from tests.acceptance.conftest import make_orch

__all__ = ["make_orch"]
