"""What the plain shell refuses: one sentence that names what lacks."""

from dataclasses import replace
from typing import cast

import pytest

from orchestrator.core.adhoc import find_target
from orchestrator.link.probe_channel import CallFailed
from orchestrator.link.shell_ops import ShellOps
from orchestrator.transport.base import Transport


@pytest.mark.parametrize(
    ("python", "said"),
    [("/opt/none/python", "`python: /opt/none/python` is none"), (None, "which has none")],
)
async def test_who_named_an_interpreter_is_told_of_it(python: str | None, said: str) -> None:
    """A wrong `python:` is named, since a target may well have another Python."""
    target = replace(find_target("local", None, ()), python=python)
    never_asked = cast("Transport", None)
    with pytest.raises(CallFailed, match=said):
        await ShellOps(target, never_asked).do("release_offer", {})
