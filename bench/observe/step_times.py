"""Series of steps as runs have them, and how often their pace is called slower, rightly or not.

    python -m bench.observe.step_times [--clean 1000] [--true 400] [--seed 90001]

Clean runs are slow here and there for reasons of their own; the others fall at a known step and
stay so. Simulated seconds only: nothing sleeps.
"""

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate

from orchestrator.core.model import WatchPolicy
from orchestrator.core.watch.vigil import Vigil

Make = Callable[[random.Random, float, int], "Series"]
"""Of a seed, the usual seconds of a step, and a number of steps."""
SIGNATURES = ("silent_eager", "throughput_drop")
GIB = 1 << 30


@dataclass(slots=True)
class Series:
    """Seconds, tokens (0: untold) and GiB of each step; `fell_at` is where a true one falls."""

    took_s: list[float]
    tokens: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    fell_at: int | None = None


def _noise(rng: random.Random, sigma: float) -> float:
    return rng.lognormvariate(0.0, sigma)


def steady(rng: random.Random, base: float, steps: int) -> Series:
    """One length, a little noise, a slow first few steps."""
    sigma = rng.uniform(0.005, 0.08)
    took = [base * _noise(rng, sigma) * (40.0 if step < 2 else 1.0) for step in range(steps)]
    return Series(took, memory=[10.0] * steps)


def bucketed(rng: random.Random, base: float, steps: int) -> Series:
    """Batches by length, in random order or in short stretches; time and memory go with length."""
    count = rng.randint(2, 6)
    lengths = [rng.uniform(1.0, 2.0) ** number for number in range(1, count + 1)]
    weights = [rng.uniform(0.2, 1.0) for _ in lengths]
    stretch = rng.choice((1, 1, 1, 2, 4, 8))
    chosen = [
        length
        for length in rng.choices(lengths, weights, k=steps // stretch + 1)
        for _ in range(stretch)
    ][:steps]
    power = rng.uniform(1.0, 1.6)
    took = [base * length**power * _noise(rng, 0.04) for length in chosen]
    tokens = [1000.0 * length for length in chosen] if rng.random() < 0.4 else []
    return Series(took, tokens, [6.0 + 4.0 * length for length in chosen])


def curriculum(rng: random.Random, base: float, steps: int) -> Series:
    """Sequences that grow: little by little, or in jumps where tokens are told."""
    last = rng.uniform(2.0, 8.0)
    jumps = rng.random() < 0.5
    levels = rng.randint(3, 6)
    lengths = []
    for step in range(steps):
        part = step / steps
        part = int(part * levels) / (levels - 1) if jumps else part
        lengths.append(1.0 + (last - 1.0) * min(1.0, part))
    took = [base * length ** rng.uniform(1.0, 1.1) * _noise(rng, 0.04) for length in lengths]
    tokens = [1000.0 * length for length in lengths] if jumps or rng.random() < 0.3 else []
    return Series(took, tokens, [6.0 + 4.0 * length for length in lengths])


def evaluated(rng: random.Random, base: float, steps: int) -> Series:
    """Every so many steps one takes long: an evaluation or a checkpoint that nobody announces."""
    series = steady(rng, base, steps)
    every, factor = rng.choice((5, 10, 25, 50, 100)), rng.uniform(3.0, 40.0)
    series.took_s = [
        one * (factor if step % every == every - 1 else 1.0)
        for step, one in enumerate(series.took_s)
    ]
    return series


def accumulated(rng: random.Random, base: float, steps: int) -> Series:
    """Gradient accumulation told step by step: each n-th one takes longer."""
    series = steady(rng, base, steps)
    every, factor = rng.randint(2, 8), rng.uniform(1.3, 5.0)
    series.took_s = [
        one * (factor if step % every == 0 else 1.0) for step, one in enumerate(series.took_s)
    ]
    return series


def stalling(rng: random.Random, base: float, steps: int) -> Series:
    """A loader that hiccups: single steps, and now and then some in a row."""
    series = steady(rng, base, steps)
    often, step = rng.uniform(0.01, 0.12), 0
    while step < steps:
        if rng.random() < often:
            row = rng.choice((1, 1, 1, 2, 3, 6))
            for at in range(step, min(steps, step + row)):
                series.took_s[at] *= rng.uniform(1.5, 12.0)
            step += row
        step += 1
    return series


def disturbed(rng: random.Random, base: float, steps: int) -> Series:
    """A neighbour that comes and goes: slow spells of up to 40 s, minutes apart."""
    series = steady(rng, base, steps)
    step, quiet_s = 0, 0.0
    while step < steps:
        quiet_s -= series.took_s[step]
        if quiet_s < 0:
            left, factor = rng.uniform(2.0, 40.0), rng.uniform(1.3, 4.0)
            quiet_s = rng.uniform(150.0, 1500.0)
            while left > 0 and step < steps:
                series.took_s[step] *= factor
                left -= series.took_s[step]
                step += 1
        step += 1
    return series


def drifting(rng: random.Random, base: float, steps: int) -> Series:
    """Clocks that sink as a card warms up, and a day's rhythm: a quarter at most."""
    series = steady(rng, base, steps)
    depth, over = rng.uniform(0.05, 0.25), rng.uniform(50.0, 800.0)
    series.took_s = [
        one * (1.0 + depth * (1.0 - 2.718 ** (-step / over)))
        for step, one in enumerate(series.took_s)
    ]
    return series


def warming(rng: random.Random, base: float, steps: int) -> Series:
    """Slow at first: caches fill, kernels are tuned."""
    series = steady(rng, base, steps)
    until, factor = rng.randint(10, 300), rng.uniform(1.5, 6.0)
    series.took_s = [
        one * (1.0 + (factor - 1.0) * max(0.0, 1.0 - step / until))
        for step, one in enumerate(series.took_s)
    ]
    return series


CLEAN: dict[str, Make] = {
    "steady": steady,
    "bucketed": bucketed,
    "curriculum": curriculum,
    "evaluated": evaluated,
    "accumulated": accumulated,
    "stalling": stalling,
    "disturbed": disturbed,
    "drifting": drifting,
    "warming": warming,
    "bucketed and stalling": lambda rng, base, steps: _both(
        bucketed(rng, base, steps), stalling(rng, base, steps)
    ),
    "bucketed and evaluated": lambda rng, base, steps: _both(
        bucketed(rng, base, steps), evaluated(rng, base, steps)
    ),
}
UNDER_A_FALL = ("steady", "bucketed", "evaluated", "accumulated", "stalling", "drifting")


def _both(one: Series, other: Series) -> Series:
    usual = sorted(other.took_s)[len(other.took_s) // 2]
    took = [a * b / usual for a, b in zip(one.took_s, other.took_s, strict=True)]
    return Series(took, one.tokens, one.memory)


def eager(rng: random.Random, base: float, steps: int) -> Series:
    """Compiled code is given up: each step takes 1.5 to 5 times as long from here on."""
    series = CLEAN[rng.choice(UNDER_A_FALL)](rng, base, steps)
    factor, larger = rng.uniform(1.5, 5.0), rng.uniform(1.6, 3.0)
    return _fallen(series, steps // 2, lambda: factor, larger)


def straggling(rng: random.Random, base: float, steps: int) -> Series:
    """One rank is slow, and all wait for it."""
    series = CLEAN[rng.choice(UNDER_A_FALL)](rng, base, steps)
    factor = rng.uniform(1.6, 4.0)
    return _fallen(series, steps // 2, lambda: factor * _noise(rng, 0.08), 1.0)


def recompiling(rng: random.Random, base: float, steps: int) -> Series:
    """Many steps compile anew, the others go as before."""
    series = CLEAN[rng.choice(("steady", "bucketed", "drifting"))](rng, base, steps)
    share = rng.uniform(0.3, 0.7)
    return _fallen(
        series, steps // 2, lambda: rng.uniform(5.0, 30.0) if rng.random() < share else 1.0, 1.0
    )


TRUE: dict[str, Make] = {
    "eager": eager,
    "straggling": straggling,
    "recompiling": recompiling,
}


def _fallen(series: Series, at: int, factor: Callable[[], float], larger: float) -> Series:
    series.took_s = [*series.took_s[:at], *(one * factor() for one in series.took_s[at:])]
    series.memory = [*series.memory[:at], *(one * larger for one in series.memory[at:])]
    series.fell_at = at
    return series


def told(series: Series) -> tuple[int, str] | None:
    """Step and signature of the first alarm of a run's own watch."""
    watch = Vigil(WatchPolicy(), 0.0, 0.0)
    for step, at in enumerate(accumulate(series.took_s)):
        values: dict[str, float | int] = {"step": step}
        if series.tokens:
            values["tokens_per_s"] = series.tokens[step] / series.took_s[step]
        if series.memory:
            values["memory_bytes"] = int(series.memory[step] * GIB)
        watch.numbers(values, at, told_at=at)
        for one in watch.look(at):
            if one.signature in SIGNATURES:
                return step, one.signature
    return None


def _size(rng: random.Random) -> tuple[float, int]:
    """Seconds of a step, and steps for an hour and a half, as far as that many are bearable."""
    base = 10 ** rng.uniform(-0.5, 1.3)
    return base, int(min(6000, max(600, 5400 / base)))


def clean(count: int, seed: int) -> None:
    """How many clean runs were called slower, by kind."""
    seen: Counter[str] = Counter()
    false: Counter[str] = Counter()
    for number in range(count):
        kind = list(CLEAN)[number % len(CLEAN)]
        rng = random.Random(f"{seed} {number}")
        seen[kind] += 1
        if found := told(CLEAN[kind](rng, *_size(rng))):
            false[kind] += 1
            print(f"false alarm: {kind}, run {number}: {found[1]} at step {found[0]}")
    for kind, runs in seen.items():
        print(f"clean  {kind:24} {runs:5} runs, false alarms {false[kind]}")
    print(f"clean  {'all':24} {count:5} runs, false alarms {sum(false.values())}", flush=True)


def true(count: int, seed: int) -> None:
    """How many true falls were told, by kind, and how long after."""
    for kind, make in TRUE.items():
        after_s, early = [], 0
        for number in range(count // len(TRUE)):
            rng = random.Random(f"{seed} {kind} {number}")
            series = make(rng, *_size(rng))
            found, fell = told(series), series.fell_at or 0
            if found and found[0] >= fell:
                after_s.append(sum(series.took_s[fell : found[0]]))
            early += found is not None and found[0] < fell
        half = sorted(after_s)[len(after_s) // 2] if after_s else float("nan")
        most = sorted(after_s)[len(after_s) * 9 // 10] if after_s else float("nan")
        print(
            f"true   {kind:24} {count // len(TRUE):5} runs, told {len(after_s)}, too early {early};"
            f" after {half:.0f} s (p50), {most:.0f} s (p90)",
            flush=True,
        )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.observe.step_times")
    parser.add_argument("--clean", type=int, default=1000)
    parser.add_argument("--true", type=int, default=400)
    parser.add_argument("--seed", type=int, default=90001)
    options = parser.parse_args()
    clean(options.clean, options.seed)
    true(options.true, options.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
