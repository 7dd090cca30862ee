"""One attempt against the clock: silence alone is no hang, and two witnesses are."""

import json
import math
import random
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.core.findings import Finding
from orchestrator.core.model import Severity, WatchPolicy
from orchestrator.core.parse.nccl_ras import Lag
from orchestrator.core.watch.activity import Activity
from orchestrator.core.watch.expectation import Expectation
from orchestrator.core.watch.pace import Pace
from orchestrator.core.watch.vigil import Silence, Vigil

START = 1_000.0
IDLE = Activity(cpu_cores=0.0, gpu_percents=(0.0, 1.0))
STACK = """Process 512: python3 -m trainer
Python v3.11.2 (/usr/bin/python3.11)

Thread 512 (idle): "MainThread"
    wait (threading.py:320)
    main (train.py:40)
"""


LAG = Lag(communicator="0dc8", operation="AllReduce", counts={0: 272, 1: 271})
_FRAME = json.loads(
    (Path(__file__).parents[2] / "captures" / "nvml" / "h200x2-hang.json").read_text()
)
RECORDED_PERCENTS = tuple(one["utilization_percent"] for one in _FRAME["samples"])
RECORDED_POWER = tuple(one["power_w"] / one["extra"]["power_limit_w"] for one in _FRAME["samples"])


def vigil(**policy: object) -> Vigil:
    """A watch that begins with the run."""
    return Vigil(WatchPolicy(**policy), START, START)  # type: ignore[arg-type]


def stepping(
    watch: Vigil, count: int, every_s: float, *, first: int = 1, at: float = START
) -> float:
    """Steps at a pace; the time of the last one."""
    for number in range(first, first + count):
        at += every_s
        watch.numbers({"step": number, "loss": 2.0}, at, told_at=at)
    return at


def test_silence_alone_is_no_hang() -> None:
    """Silent beyond what was allowed, but at work: nothing is said, now or later."""
    watch = vigil(output_within_s=60.0)
    watch.output(START + 10)
    assert watch.silence(START + 60) is None
    silence = watch.silence(START + 75)
    assert silence == Silence(text="silent for 65 s")
    assert watch.judge(silence, Activity(cpu_cores=1.0, gpu_percents=(80.0,))) is None


@pytest.mark.parametrize(
    ("activity", "said"),
    [
        (IDLE, "0.00 CPU cores used, GPUs at 0 to 1 %"),
        (Activity(cpu_cores=0.0), "0.00 CPU cores used"),
        (
            Activity(cpu_cores=1.0, gpu_percents=(99.0, 100.0), power_parts=(0.2, 0.21)),
            "at the power of waiting",
        ),
        (
            Activity(
                cpu_cores=1.0,
                gpu_percents=(100.0,),
                power_parts=(0.9,),
                stacks=(STACK,),
                later_stacks=(STACK.replace("(idle)", "(active)"),),
            ),
            "every stack stands still",
        ),
        (
            Activity(
                cpu_cores=1.0,
                gpu_percents=RECORDED_PERCENTS,
                power_parts=RECORDED_POWER,
                stacks=(STACK,),
                later_stacks=(STACK,),
            ),
            "at the power of waiting",
        ),
        (
            Activity(cpu_cores=1.0, lags=(LAG,), later_lags=(LAG,)),
            "NCCL waits for rank 1 in AllReduce 272",
        ),
    ],
    ids=["idle", "no GPUs", "all in a collective", "stacks", "one rank missing", "NCCL says so"],
)
def test_two_witnesses_are_a_hang(activity: Activity, said: str) -> None:
    """Silence, and what the run's processes or GPUs say of it; told once."""
    watch = vigil(output_within_s=60.0)
    silence = watch.silence(START + 61)
    assert silence is not None
    found = watch.judge(silence, activity)
    assert found is not None
    assert (found.signature, found.severity, found.ends) == ("hang", Severity.CRITICAL, None)
    assert found.text.startswith("silent for 61 s; ")
    assert said in found.text
    assert watch.silence(START + 1_000) is None
    watch.output(START + 1_001)
    assert watch.silence(START + 2_000) is not None


def test_stacks_that_moved_are_no_witness() -> None:
    """The same functions, another line: it works."""
    moved = STACK.replace("train.py:40", "train.py:41")
    busy = (100.0,)
    activity = Activity(cpu_cores=1.0, gpu_percents=busy, stacks=(STACK,), later_stacks=(moved,))
    assert not activity.stands_still


@pytest.mark.parametrize(
    "activity",
    [
        # One works and the other has nothing to do.
        Activity(cpu_cores=1.0, gpu_percents=(100.0, 0.0), power_parts=(0.95, 0.17)),
        # Small kernels: cold, but the program gets on.
        Activity(
            cpu_cores=1.0,
            gpu_percents=(100.0,),
            power_parts=(0.3,),
            stacks=(STACK,),
            later_stacks=(STACK.replace("train.py:40", "train.py:41"),),
        ),
        # NCCL told of a rank that was behind for a moment.
        Activity(cpu_cores=1.0, lags=(LAG,), later_lags=(replace(LAG, counts={0: 280, 1: 279}),)),
    ],
    ids=["one works", "small kernels", "a lag that moves"],
)
def test_what_gets_on_is_no_hang(activity: Activity) -> None:
    """Silent, and at work."""
    assert vigil().judge(Silence(text="silent"), activity) is None


def test_one_line_that_uses_the_cpu_is_no_hang() -> None:
    """A long loop over data: the stack is the same, and the CPU works on it."""
    for percents in ((), (0.0,)):
        activity = Activity(
            cpu_cores=1.0, gpu_percents=percents, stacks=(STACK,), later_stacks=(STACK,)
        )
        assert vigil().judge(Silence(text="silent"), activity) is None


@pytest.mark.parametrize(
    "command",
    [
        "/usr/bin/python3 /x/torch/_inductor/compile_worker/__main__.py --workers=32",
        "/usr/local/cuda/bin/ptxas -arch sm_90a",
        "/usr/lib/gcc/cc1plus -quiet",
    ],
)
def test_compiling_is_a_phase_and_no_hang(command: str) -> None:
    """The main thread stands still and the GPU is idle, but compilers work."""
    watch = vigil(output_within_s=60.0)
    silence = watch.silence(START + 61)
    assert silence is not None
    busy = Activity(
        cpu_cores=7.5,
        gpu_percents=(0.0,),
        commands=("python3 -m trainer", command),
        stacks=(STACK,),
        later_stacks=(STACK,),
    )
    assert watch.judge(silence, busy) is None


def test_the_limit_of_silence_is_learned_from_the_steps() -> None:
    """Without a policy nothing is suspicious until a pace is known, and then thirty steps are."""
    watch = vigil()
    assert watch.silence(START + 100_000) is None
    at = stepping(watch, 40, 20.0)
    assert watch.silence(at + 590) is None
    silence = watch.silence(at + 610)
    assert silence is not None
    assert silence.text == "silent for 10 min"


def test_a_checkpoint_may_take_its_time() -> None:
    """A phase that is known to be slow has thrice the patience."""
    watch = vigil(output_within_s=60.0)
    watch.numbers({"phase": "checkpoint"}, START + 10, told_at=None)
    assert watch.silence(START + 180) is None
    silence = watch.silence(START + 200)
    assert silence is not None
    assert silence.text == "silent for 3 min in phase checkpoint"


def test_what_is_not_seen_is_no_silence() -> None:
    """The link is cut for an hour: blindness is told, a hang is not, and patience begins anew."""
    watch = vigil(output_within_s=60.0)
    watch.link(seen=False, at=START + 10)
    assert watch.silence(START + 3_600) is None
    (blind,) = watch.look(START + 3_610)
    assert (blind.signature, blind.severity) == ("blind", Severity.WARNING)
    assert blind.text == "not seen for 60 min; the run is as it was then"
    assert watch.look(START + 3_700) == []
    watch.link(seen=True, at=START + 3_800)
    assert watch.silence(START + 3_850) is None
    assert watch.silence(START + 3_861) is not None


def test_a_short_cut_is_no_blindness() -> None:
    """A laptop that changes its network tells nobody."""
    watch = vigil()
    watch.link(seen=False, at=START)
    assert watch.look(START + 200) == []


def test_a_start_that_never_comes_is_told_as_what_it_is() -> None:
    """Idle: a hang. Busy: late, and no hang. Told once either way."""
    for activity, signature in ((IDLE, "hang"), (Activity(cpu_cores=3.0), "expectation_failed")):
        watch = vigil(start_within_s=900.0, metrics={"step": r"step (?P<value>\d+)"})
        watch.output(START + 1)
        assert watch.silence(START + 899) is None
        silence = watch.silence(START + 901)
        assert silence is not None
        found = watch.judge(silence, activity)
        assert found is not None
        assert found.signature == signature
        assert found.text.startswith("no step within 15 min of the start; ")
        assert watch.silence(START + 2_000) is None


def test_a_daemon_that_comes_back_does_not_mistake_its_own_absence() -> None:
    """The run is a day old and was stepping: nothing is late, nothing was silent."""
    watch = Vigil(
        WatchPolicy(start_within_s=60.0, output_within_s=60.0),
        START,
        START + 86_400,
        has_output=True,
        has_steps=True,
    )
    assert watch.silence(START + 86_430) is None


def test_a_loss_that_is_no_number_is_told_at_the_third() -> None:
    """One NaN is what a loss scaler skips."""
    watch = vigil()
    losses = [1.0, math.nan, 1.0, math.nan, math.inf, math.nan, math.nan]
    told = []
    for step, loss in enumerate(losses):
        watch.numbers({"step": step, "loss": loss}, START + step, told_at=None)
        told += watch.look(START + step)
    (found,) = told
    assert found.signature == "nan_loss"
    assert found.text == "the loss is nan at step 5, the 3rd time in a row"


def test_an_expectation_that_fails_is_told_with_its_number() -> None:
    """`step>=1000: loss<6`, at the third loss in a row that is not."""
    watch = vigil(expect=("step>=1000: loss<6",))
    for step, loss in ((500, 9.0), (999, 9.0), (1000, 6.5), (1001, 5.0), (1002, 6.1), (1003, 6.2)):
        watch.numbers({"step": step, "loss": loss}, START + step, told_at=None)
    assert watch.look(START) == []
    watch.numbers({"step": 1004, "loss": 6.3}, START, told_at=None)
    watch.numbers({"step": 1005, "loss": 6.4}, START, told_at=None)
    (found,) = watch.look(START)
    assert found.signature == "expectation_failed"
    assert found.text == "step>=1000: loss<6: loss is 6.3 at step 1004"


@pytest.mark.parametrize("text", ["loss<6", "step>=1000: loss", "step>=1000: loss<six", ":"])
def test_what_is_no_expectation_is_refused(text: str) -> None:
    """The inventory refuses these at the door already."""
    with pytest.raises(ValueError, match="no condition"):
        Expectation(text)


def test_nan_meets_no_expectation() -> None:
    """Not below six, nor above."""
    expectation = Expectation("step>=1: loss<6")
    fed = [expectation.feed({"step": 1, "loss": math.nan}) for _ in range(4)]
    assert fed == [False, False, True, False]


def test_half_the_speed_is_told_when_it_does_not_come_back() -> None:
    """A slow minute is nothing; a pace that stays halved is told once."""
    watch = vigil()
    at = stepping(watch, 280, 1.0)
    at = stepping(watch, 12, 3.0, first=281, at=at)
    at = stepping(watch, 280, 1.0, first=293, at=at)
    assert watch.look(at) == []
    at = stepping(watch, 60, 2.5, first=573, at=at)
    (found,) = watch.look(at)
    assert (found.signature, found.severity) == ("throughput_drop", Severity.WARNING)
    assert found.text == "a step takes 2.5 times as long as before, and stays so"
    at = stepping(watch, 60, 2.5, first=633, at=at)
    assert watch.look(at) == []


def test_checkpoints_do_not_count_as_slow_steps() -> None:
    """An interval with another phase in it says nothing of the pace."""
    pace = Pace()
    at = 0.0
    counted = []
    for number in range(200):
        saving = number % 5 == 4
        at += 60.0 if saving else 1.0
        counted.append(pace.step(number, at, "checkpoint" if saving else "train"))
    assert pace.usual_s == pytest.approx(1.0)
    assert {one for one in counted if one is not None} == {(1.0, 1.0)}


def test_steps_told_every_hundred_count_each() -> None:
    """The pace is of one step, however seldom it is printed."""
    pace = Pace()
    times = [number * 50.0 for number in range(60)]
    counted = [pace.step(number * 100, at, None) for number, at in enumerate(times)]
    assert pace.usual_s == pytest.approx(0.5)
    assert counted[-1] == (0.5, 50.0)


@pytest.mark.parametrize("step", [math.nan, math.inf, -math.inf])
def test_a_step_that_is_no_number_is_passed_over(step: float) -> None:
    """JSON as Python writes it may hold NaN; the steps after it are counted as ever."""
    watch = vigil(start_within_s=10.0)
    watch.numbers({"step": step}, START + 1, told_at=START + 1)
    silence = watch.silence(START + 11)
    assert silence is not None
    assert silence.text.startswith("no step")


def test_slower_with_more_memory_is_compiled_code_that_was_given_up() -> None:
    """The log says nothing of it: three times the time and twice the memory do."""
    watch = vigil()
    at = START
    for step in range(1, 400):
        slow = step > 280
        at += 3.0 if slow else 1.0
        values = {"step": step, "phase": "train", "memory_bytes": (20 if slow else 10) * 2**30}
        watch.numbers(values, at, told_at=at)
    (found,) = watch.look(at)
    assert (found.signature, found.severity) == ("silent_eager", Severity.WARNING)
    assert found.text == (
        "a step takes 3.0 times as long as before, and stays so, with 2.0 times the memory:"
        " compiled code may run eagerly now"
    )


def fed(
    watch: Vigil, steps: Iterable[tuple[float, float]], *, tokens: bool = False
) -> list[Finding]:
    """What is found of steps of (seconds, GiB) each; `tokens`: they tell a speed that stays."""
    at, found = START, []
    for number, (every_s, memory_gib) in enumerate(steps, start=1):
        at += every_s
        values = {"step": number, "phase": "train", "memory_bytes": int(memory_gib * 2**30)}
        if tokens:
            values["tokens_per_s"] = 40_000.0
        watch.numbers(values, at, told_at=at)
        found += watch.look(at)
    return found


@pytest.mark.parametrize("seed", range(5))
def test_batches_of_several_lengths_are_no_downgrade(seed: int) -> None:
    """Lengths that go by turns, in whatever order, are the run's own pace, memory and all."""
    chance = random.Random(seed)
    buckets = ((0.5, 8.0), (1.0, 14.0), (2.4, 40.0))
    by_turns = [buckets[number] for number in (0, 0, 2, 0, 0, 1) * 10]
    chance.shuffle(by_turns)
    in_blocks = [
        bucket for bucket in (*chance.choices(buckets, k=8), buckets[2]) for _ in range(60)
    ]
    steps = by_turns + in_blocks
    assert [one for one in fed(vigil(), steps) if one.signature == "silent_eager"] == []


def test_longer_sequences_that_do_as_much_a_second_are_no_downgrade() -> None:
    """A curriculum makes steps longer and takes memory; the tokens of a second say: all is well."""
    grown = [(1.0, 10.0)] * 280 + [(4.0, 40.0)] * 80
    assert fed(vigil(), grown, tokens=True) == []
    (found,) = fed(vigil(), grown)
    assert found.signature == "silent_eager"


def test_a_run_gets_on_while_it_makes_steps() -> None:
    """By its steps, in training alone; by its output where it tells none and has begun."""
    watch = vigil()
    watch.output(START + 5)
    assert not watch.gets_on(START + 10)
    watch.output(START + 650)
    assert watch.gets_on(START + 660)
    assert not watch.gets_on(START + 800)
    watch.numbers({"step": 1, "phase": "train"}, START + 800, told_at=None)
    assert watch.gets_on(START + 810)
    watch.output(START + 900)
    assert not watch.gets_on(START + 900)
    watch.numbers({"step": 2, "phase": "checkpoint"}, START + 901, told_at=None)
    assert not watch.gets_on(START + 902)
