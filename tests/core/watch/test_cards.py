"""What the GPUs of a run say: faults at once, and one that holds the others up after a while."""

from dataclasses import replace

import pytest

from orchestrator.core.events import KernelLine
from orchestrator.core.model import GpuSample, Severity
from orchestrator.core.watch.cards import MOST_XIDS, ROUNDS, Cards
from orchestrator.core.watch.kernel import Whose, own_cards, xid_finding

ALL = frozenset(range(4))


def sample(index: int, percent: float = 99.0, clock: int = 1980, **extra: object) -> GpuSample:
    """A GPU at work."""
    return GpuSample(
        index=index,
        name="NVIDIA H200",
        utilization_percent=percent,
        extra={"sm_clock_mhz": clock, **extra},
    )


def rounds(cards: Cards, samples: list[GpuSample], count: int = ROUNDS) -> list[str]:
    """Texts of what is found when the same is seen again and again."""
    return [one.text for _ in range(count) for one in cards.take(samples, ALL)]


def test_a_rank_that_comes_late_is_a_straggler() -> None:
    """Its GPU rests while all others wait in a collective, which looks like work."""
    samples = [sample(0), sample(1), sample(2, percent=41.0), sample(3, percent=100.0)]
    cards = Cards(0.0)
    assert rounds(cards, samples, ROUNDS - 1) == []
    (text,) = rounds(cards, samples, 3 * ROUNDS)
    assert text == (
        "GPU 2 is busy 41 % of the time, the 3 others 99 % or more and waiting for its rank"
    )


def test_who_works_for_all_while_no_step_is_made_is_no_straggler() -> None:
    """Loading, compiling, saving: the others wait for that rank, and rightly so."""
    samples = [sample(0, percent=3.0), sample(1), sample(2), sample(3)]
    cards = Cards(0.0)
    assert not [one for _ in range(3 * ROUNDS) for one in cards.take(samples, ALL, stepping=False)]
    assert rounds(cards, samples, ROUNDS - 1) == []
    assert len(rounds(cards, samples, 1)) == 1


def test_of_two_gpus_the_one_that_waits_is_known_by_its_power() -> None:
    """As recorded: the rank that waits shows 100 % at 22 % of its power, the late one 8 %.

    One that works as well as it can beside one that has little to do is no waiting.
    """
    late = sample(1, percent=8.0, power_limit_w=700.0)
    waits = replace(sample(0, percent=100.0, power_limit_w=700.0), power_w=156.0)
    cards = Cards(0.0)
    found = [
        one.text for _ in range(ROUNDS) for one in cards.take([waits, late], frozenset({0, 1}))
    ]
    assert found == [
        "GPU 1 is busy 8 % of the time, the other 100 % or more and waiting for its rank"
    ]
    works = replace(waits, power_w=690.0)
    cards = Cards(0.0)
    assert not [one for _ in range(ROUNDS) for one in cards.take([works, late], frozenset({0, 1}))]


def test_a_gpu_that_is_slowed_down_is_a_straggler_with_its_reason() -> None:
    """It works as much as the others, at lower clocks; it is a warning, and passes by itself."""
    samples = [sample(0), sample(1, clock=1100, throttle_reasons=0x48), sample(2), sample(3)]
    cards = Cards(0.0)
    found = [one for _ in range(2 * ROUNDS) for one in cards.take(samples, ALL)]
    (one,) = found
    assert (one.signature, one.severity, one.transient) == ("straggler", Severity.WARNING, True)
    assert one.text == (
        "GPU 1 runs at 1100 MHz, the 3 others at 1980 MHz or more"
        " (hardware slowdown, hardware thermal slowdown)"
    )


@pytest.mark.parametrize(
    "samples",
    [
        [sample(index) for index in range(4)],
        # Five draft and three verify: several rest, and none of them is odd.
        [sample(0), sample(1), sample(2, percent=30.0), sample(3, percent=35.0)],
        # It draws all the power that it may: it works most of all.
        [sample(0), sample(1), sample(2), sample(3, clock=1300, throttle_reasons=0x4)],
        [sample(0), sample(1), sample(2), replace(sample(3, clock=900), name="NVIDIA L4")],
        # Nothing runs: a GPU that rests lowers its clocks.
        [sample(0), sample(1), sample(2), sample(3, percent=0.0, clock=345)][::-1][:2],
        [sample(0, percent=0.0), sample(1, percent=1.0), sample(2, percent=0.0, clock=345)],
    ],
)
def test_what_differs_for_a_reason_is_no_straggler(samples: list[GpuSample]) -> None:
    """Roles, power, other cards, too few of them, and idleness."""
    assert rounds(Cards(0.0), samples, 3 * ROUNDS) == []


def test_a_lost_gpu_is_a_finding_and_the_same_one_as_the_kernels() -> None:
    """It tells of no process any more, and is the run's all the same; somebody else's is not."""
    holder = {"pid": 9, "run": "dflash-1", "run_dir": "/w/runs/dflash-1.u"}
    whose = Whose(
        run="dflash-1", directory="/w/runs/dflash-1.u", container="200", holders={9: holder}
    )
    before = [replace(sample(0), processes=(holder,)), sample(1)]
    lost = [GpuSample(index=index, extra={"error": "GPU is lost"}) for index in (0, 1)]
    cards = Cards(0.0)
    assert cards.take(before, own_cards(before, whose)) == []
    (found,) = cards.take(lost, own_cards(lost, whose))
    assert cards.take(lost, frozenset()) == []
    assert (found.signature, found.text) == ("gpu_fault", "GPU 0: GPU is lost")
    line = KernelLine(line="NVRM: Xid (PCI:0000:01:00): 79, pid=9, name=python3, GPU", at=1.0)
    said = xid_finding(line, whose)
    assert said is not None
    assert said.fingerprint == found.fingerprint


def test_memory_errors_count_from_where_they_stood() -> None:
    """Those from before the run are history; a row that cannot be replaced is not."""
    cards = Cards(0.0)
    assert cards.take([sample(0, ecc_uncorrected=2)], ALL) == []
    (found,) = cards.take([sample(0, ecc_uncorrected=3)], ALL)
    assert found.text == "GPU 0: 1 more uncorrected ECC errors, 3 in all"
    (found,) = cards.take([sample(0, ecc_uncorrected=3, remapped_rows=[0, 1, 1, 1])], ALL)
    assert found.text == "GPU 0: a memory row or page could not be replaced"


def test_an_xid_that_the_driver_tells_is_told_once_and_by_its_class() -> None:
    """The same finding as from the kernel's log; a program's own fault is none."""
    cards = Cards(0.0)
    assert cards.take([sample(0, xid=31, xid_at=1.0)], ALL) == []
    (found,) = cards.take([sample(0, xid=48, xid_at=2.0)], ALL)
    assert cards.take([sample(0, xid=48, xid_at=2.0)], ALL) == []
    assert found.text.startswith("Xid 48 (gpu) on GPU 0: a double-bit ECC error")
    line = KernelLine(
        line="NVRM: Xid (PCI:0000:01:00): 48, pid=9, name=python3, DBE", at=1.0,
        run="dflash-1", run_dir="/w/runs/dflash-1.u",
    )  # fmt: skip
    said = xid_finding(line, Whose(run="dflash-1", directory="/w/runs/dflash-1.u", container=None))
    assert said is not None
    assert said.fingerprint == found.fingerprint
    (noted,) = cards.take([sample(0, xid=63, xid_at=3.0)], ALL)
    assert noted.severity is Severity.WARNING


def test_what_the_driver_told_is_not_forgotten_with_the_driver() -> None:
    """A probe that begins anew, or a driver that does, tells of no Xid that was before it."""
    cards = Cards(4.0)
    cards.take([sample(0, xid=31, xid_at=5.0), sample(1, xid=43, xid_at=4.5)], frozenset({0}))
    cards.take([sample(0), sample(1)], frozenset())
    (told,) = cards.told_by_driver()
    assert told.text.startswith("Xid 31 (application) on GPU 0")


def test_an_xid_of_before_the_attempt_is_not_its_own() -> None:
    """A driver tells of the newest Xid for as long as it runs, also to the run that comes next."""
    cards = Cards(10.0)
    assert cards.take([sample(0, xid=48, xid_at=9.9)], ALL) == []
    assert cards.told_by_driver() == ()
    (found,) = cards.take([sample(0, xid=48, xid_at=10.0)], ALL)
    assert found.text.startswith("Xid 48")


def test_an_xid_after_a_clock_that_stepped_back_is_told() -> None:
    """Another moment is another Xid, be it later or not."""
    cards = Cards(0.0)
    assert len(cards.take([sample(0, xid=48, xid_at=90.0)], ALL)) == 1
    assert len(cards.take([sample(0, xid=79, xid_at=30.0)], ALL)) == 1
    assert [one.at for one in cards.told_by_driver()] == [30.0, 90.0]


def test_of_a_storm_of_xids_the_newest_of_each_gpu_are_kept() -> None:
    """A program that meets one at each step costs no memory, and no neighbour its evidence."""
    cards = Cards(0.0)
    cards.take([sample(1, xid=48, xid_at=0.5)], frozenset({1}))
    for at in range(3 * MOST_XIDS):
        cards.take([sample(0, xid=31, xid_at=float(at))], ALL)
    kept = [0.5, *(float(at) for at in range(2 * MOST_XIDS, 3 * MOST_XIDS))]
    assert [one.at for one in cards.told_by_driver()] == kept
