"""What a person may write for a target, and what is taken for a slip of the pen."""

import pytest

from orchestrator.core.adhoc import find_host, find_target, split_place
from orchestrator.core.errors import UsageError
from orchestrator.core.model import Host, Inventory, Target

PVE1 = Host(name="pve1", hostname="10.1.2.6", user="root")
INVENTORY = Inventory(
    path="/i.yaml",
    digest="0",
    hosts={"pve1": PVE1},
    targets={"ct200": Target(name="ct200", host=PVE1, runtime="pct", container="200")},
    jobs={},
)


@pytest.mark.parametrize(
    ("text", "host", "runtime", "container"),
    [
        (
            "root@10.1.2.6/pct:200",
            Host(name="root@10.1.2.6", hostname="10.1.2.6", user="root"),
            "pct",
            "200",
        ),
        ("gpu3", Host(name="gpu3", hostname="gpu3"), "none", None),
        ("gpu3.lan:2222", Host(name="gpu3.lan:2222", hostname="gpu3.lan", port=2222), "none", None),
        (
            "a@[fe80::1]:22",
            Host(name="a@[fe80::1]:22", hostname="fe80::1", user="a", port=22),
            "none",
            None,
        ),
        ("local", Host(name="local", transport="local"), "none", None),
        ("local/docker:web-1", Host(name="local", transport="local"), "docker", "web-1"),
        ("gpu3/lxc:web", Host(name="gpu3", hostname="gpu3"), "lxc", "web"),
    ],
)
def test_a_place_without_an_inventory(
    text: str, host: Host, runtime: str, container: str | None
) -> None:
    """User, host, port, runtime and container are read; ssh resolves the rest."""
    expected = Target(name=text, host=host, runtime=runtime, container=container)
    assert find_target(text, None, ()) == expected


def test_names_of_the_inventory_come_first() -> None:
    """A target by its name, and another container of a host that the inventory has."""
    assert find_target("ct200", INVENTORY, ()) is INVENTORY.targets["ct200"]
    assert find_target("pve1", INVENTORY, ()).host is PVE1
    other = find_target("pve1/pct:201", INVENTORY, ())
    assert (other.host, other.container) == (PVE1, "201")


def test_a_host_is_found_by_a_target_on_it() -> None:
    """`orch trust ct200` means the host that the container is on."""
    assert find_host("ct200", INVENTORY, ()) is PVE1
    assert find_host("pve1", INVENTORY, ()) is PVE1


@pytest.mark.parametrize(
    "text",
    ["", "ct201", "a b", "root@", "h:0", "h:70000", "h/pct", "h/none:1", "h/pct:a;b", "-oX=y"],
)
def test_what_is_no_target(text: str) -> None:
    """A misspelt name and what a shell or ssh could take for something else are refused."""
    with pytest.raises(UsageError):
        find_target(text, INVENTORY, ("gpu3",))


def test_an_alias_of_ssh_is_a_target_beside_an_inventory() -> None:
    """A bare word must be known to ~/.ssh/config, or it is taken for a misspelt name."""
    assert find_target("gpu3", INVENTORY, ("gpu3",)).host.hostname == "gpu3"
    with pytest.raises(UsageError, match="It has ct200"):
        find_target("gpu3", INVENTORY, ())


@pytest.mark.parametrize(
    ("text", "target", "path"),
    [
        ("ct200:/srv/x", "ct200", "/srv/x"),
        ("root@10.1.2.6/pct:200:/srv/a:b", "root@10.1.2.6/pct:200", "/srv/a:b"),
        ("gpu3:2222:~/x", "gpu3:2222", "~/x"),
        ("box/pct:200:data", "box/pct:200", "data"),
        ("ct200:", "ct200", ""),
        ("./a:b", None, "./a:b"),
        ("/a:/b", None, "/a:/b"),
        ("plain", None, "plain"),
    ],
)
def test_a_place_of_cp(text: str, target: str | None, path: str) -> None:
    """Which colon ends the target; what is plainly a path here is one."""
    assert split_place(text) == (target, path)
