"""What attempts found around them, as it is kept."""

from orchestrator.store import Store
from orchestrator.store.environments import Moment


async def test_first_look_of_a_moment_stays(store: Store) -> None:
    """A daemon that looks again after a restart does not overwrite what was seen at the launch."""
    looks = store.environments
    await looks.add("dflash-1", 1, Moment.LAUNCH, {"python": "3.11"}, {"command": "x"})
    await looks.add("dflash-1", 1, Moment.LAUNCH, {"python": "3.12"}, {"command": "y"})
    await looks.add("dflash-1", 1, Moment.END, {"python": "3.13"}, {"command": "x"})
    found = await looks.of("dflash-1")
    assert [(one.moment, one.fingerprint["python"], one.job["command"]) for one in found] == [
        (Moment.LAUNCH, "3.11", "x"),
        (Moment.END, "3.13", "x"),
    ]
    assert await looks.of("dflash-2") == ()


async def test_looks_can_be_forgotten(store: Store) -> None:
    """With a run's log its looks go too."""
    await store.environments.add("dflash-1", 1, Moment.LAUNCH, {}, {})
    await store.environments.forget("dflash-1")
    assert await store.environments.of("dflash-1") == ()
