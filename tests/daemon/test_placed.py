"""Where a live run is watched once the inventory says something else of its target."""

import pytest

from orchestrator.core.inventory.build import parse_inventory
from orchestrator.core.model import Inventory
from orchestrator.daemon.placed import placed

TEXT = """
version: 1
hosts: {a: {hostname: 10.0.0.1}, b: {hostname: 10.0.0.2}}
targets: {ct200: {host: a, runtime: pct, container: 200}}
"""


def said(text: str) -> Inventory:
    """An inventory of that text."""
    return parse_inventory(
        text.encode(), path="i.yaml", folder="/", exists=lambda _: True, home="/root"
    )


@pytest.mark.parametrize(
    ("was", "now"),
    [("10.0.0.1", "10.0.0.9"), ("container: 200", "container: 200, python: /opt/python3")],
)
def test_the_same_place_is_reached_as_the_text_says(was: str, now: str) -> None:
    """An address, or an interpreter, is no other place."""
    edited = said(TEXT.replace(was, now))
    target = said(TEXT).targets["ct200"]
    assert placed(target, "ct200", edited) == edited.targets["ct200"] != target


@pytest.mark.parametrize(
    ("was", "now"), [("container: 200", "container: 201"), ("{host: a,", "{host: b,")]
)
def test_a_run_stays_where_it_was_launched(was: str, now: str) -> None:
    """Another container or host under the same name has another link; both are kept."""
    target, edited = said(TEXT).targets["ct200"], said(TEXT.replace(was, now))
    kept = placed(target, "ct200", edited)
    assert (kept.host, kept.container) == (target.host, "200")
    assert kept.name == "ct200 at a/pct/200/root"
    assert placed(kept, "ct200", edited) == kept
    assert placed(kept, "ct200", said(TEXT)) == target


def test_a_target_that_was_taken_out_is_no_host_of_that_name() -> None:
    """Its run stays, on the host as the inventory describes it now."""
    target = said(TEXT).targets["ct200"]
    line = "targets: {ct200: {host: a, runtime: pct, container: 200}}"
    edited = said(TEXT.replace(line, "targets: {other: {host: b}}").replace("0.0.1", "0.0.7"))
    kept = placed(target, "ct200", edited)
    assert (kept.name, kept.container, kept.host) == ("ct200", "200", edited.hosts["a"])
