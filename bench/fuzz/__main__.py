"""Feeds hostile inputs to whatever reads what others wrote; stops at a crash, a hang or growth.

    python -m bench.fuzz [--inputs 1000000] [--seed 1] [--minutes 60] [--json]

Inputs are mutations of real ones, of their bytes and of their structure (inputs.py). A reader may
refuse with its own error (readers.py); any other exception, or a CPU second, is a find. After
`--minutes` it stops, and says how many inputs there were.
"""

import argparse
import math
import random
import resource
import sys
import time

from bench.fuzz.inputs import mutated, reshaped, seeds, trees
from bench.fuzz.readers import READERS, Reader
from bench.observe.figures import show

SLOW_S = 1.0
GROWTH_KIB = 200 * 1024


def _find(name: str, reader: Reader, text: bytes) -> str | None:
    """What a reader breaks on; None where it reads or refuses."""
    begun = time.process_time()
    try:
        reader.read(text)
    except reader.refuses:
        pass
    except Exception as error:  # noqa: BLE001  any other one is what is looked for
        return f"{name}: {type(error).__name__}: {error}: {text[:200]!r}"
    took = time.process_time() - begun
    return f"{name}: {took:.1f} s: {text[:200]!r}" if took > SLOW_S else None


def fuzz(inputs: int, seed: int, within_s: float = math.inf) -> dict[str, object]:
    """Feed that many, or what can be fed in that time; the figures."""
    until = time.monotonic() + within_s
    rng, pool, documents = random.Random(seed), seeds(), trees()
    shares = [reader.share for reader in READERS.values()]
    counts = dict.fromkeys(READERS, 0)
    finds: list[str] = []
    slowest: tuple[float, str] = (0.0, "")
    base_kib = 0
    for number in range(inputs):
        if not number % 100 and time.monotonic() > until:
            break
        name = rng.choices(list(READERS), shares)[0]
        reader = READERS[name]
        text = (
            reshaped(rng, rng.choice(documents[reader.tree])) if reader.tree else mutated(rng, pool)
        )
        begun = time.process_time()
        found = _find(name, reader, text)
        slowest = max(slowest, (time.process_time() - begun, name))
        counts[name] += 1
        if found is not None:
            finds.append(found)
        if number == min(20_000, inputs // 5):
            base_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    most_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    grown_kib = most_kib - base_kib if base_kib else 0
    if grown_kib > GROWTH_KIB:
        finds.append(f"memory grew by {grown_kib} KiB")
    return {
        "inputs": sum(counts.values()),
        "out_of_time": sum(counts.values()) < inputs,
        "by_reader": counts,
        "finds": finds[:20],
        "num_finds": len(finds),
        "slowest_s": [round(slowest[0], 3), slowest[1]],
        "grown_kib": grown_kib,
    }


def main() -> int:
    """Run and report; 1 where something was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    begun = time.monotonic()
    found = fuzz(options.inputs, options.seed, 60.0 * options.minutes)
    show([{**found, "seconds": round(time.monotonic() - begun)}], as_json=options.json)
    return 1 if found["finds"] else 0


if __name__ == "__main__":
    sys.exit(main())
