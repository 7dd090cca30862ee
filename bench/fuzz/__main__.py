"""Feeds hostile inputs to whatever reads what others wrote; stops at a crash, a hang or growth.

    python -m bench.fuzz [--inputs 1000000] [--seed 1] [--minutes 60] [--json]

Inputs are mutations of real ones: bytes flipped, cut, doubled, spliced with those of another kind.
A reader may refuse with its own error; any other exception, or a CPU second, is a find. After
`--minutes` it stops, and says how many inputs there were.
"""

import argparse
import json
import math
import random
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench.observe.figures import show
from orchestrator.core.detect.engine import Engine
from orchestrator.core.detect.signatures import load
from orchestrator.core.errors import OrchError
from orchestrator.core.inventory.build import parse_inventory
from orchestrator.core.parse import elastic, kernel_log, nvidia_smi, ssh_config, terminal, tmux
from orchestrator.core.parse.metrics import MetricsReader
from orchestrator.daemon.launching import RunRequest
from orchestrator.probe import frames

ROOT = Path(__file__).parents[2]
SLOW_S = 1.0
MOST_BYTES = 4096
GROWTH_KIB = 200 * 1024
SIGNATURES = load()
WORDS = (
    b"\x00",
    b"\xff\xfe",
    b"\x1b]52;c;AA==\x07",
    b"{" * 50,
    b"[" * 200,
    b'"',
    b"\r" * 40,
    b"../",
)


def _inventory(text: bytes) -> None:
    parse_inventory(
        text, path="i.yaml", folder="/", exists=lambda _: True, home="/", check_rule=lambda _: None
    )


def _detect(text: bytes) -> None:
    engine = Engine(SIGNATURES)
    engine.feed(text)
    engine.close(None)


def _body(text: bytes) -> None:
    body = json.loads(text)
    if isinstance(body, dict):
        RunRequest.of(body)


def _text(reader: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda text: reader(text.decode("utf-8", "replace"))


READERS: dict[str, tuple[Callable[[bytes], object], float]] = {
    "frames": (frames.decode, 30.0),
    "api bodies": (_body, 20.0),
    "terminal": (terminal.clean, 15.0),
    "shown text": (_text(terminal.printable), 10.0),
    "prefixes": (_text(terminal.read_prefix), 10.0),
    "metrics": (lambda text: MetricsReader().feed(text), 10.0),
    "nvidia-smi": (_text(nvidia_smi.parse_samples), 5.0),
    "tmux": (_text(tmux.parse_sessions), 5.0),
    "elastic": (lambda text: elastic.read_table(text.decode("latin-1").split("\n")), 5.0),
    "kernel": (_text(kernel_log.read_kernel_line), 5.0),
    "ssh config": (_text(ssh_config.parse_ssh_config), 5.0),
    "detection": (_detect, 2.0),
    "inventory": (_inventory, 0.5),
}
"""Each with its share: what is slow gets fewer inputs."""


def seeds() -> list[bytes]:
    """Real inputs to begin with."""
    found = [(ROOT / "inventory.yaml").read_bytes()]
    found += (ROOT / "tests/probe/frames.golden.jsonl").read_bytes().splitlines()[:100]
    for file in sorted((ROOT / "tests/captures").rglob("*")):
        if file.is_file() and file.stat().st_size < 200_000:
            found.append(file.read_bytes()[:MOST_BYTES])
    found.append(b'{"job": "a", "env": {"A": "b"}, "args": ["x"], "grace_s": 3}')
    return [one for one in found if one]


def mutated(rng: random.Random, pool: list[bytes]) -> bytes:
    """One hostile input."""
    text = bytearray(rng.choice(pool)[:MOST_BYTES])
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(text) + 1)
        match rng.randrange(5):
            case 0:
                text[at:at] = rng.choice(WORDS)
            case 1:
                del text[at : at + rng.randrange(64)]
            case 2:
                text[at:at] = rng.choice(pool)[: rng.randrange(256)]
            case 3:
                text[at : at + 1] = bytes([rng.randrange(256)])
            case _:
                text[at:at] = text[at : at + rng.randrange(32)] * rng.randint(1, 20)
    return bytes(text[:MOST_BYTES])


def fuzz(inputs: int, seed: int, within_s: float = math.inf) -> dict[str, object]:
    """Feed that many, or what can be fed in that time; the figures."""
    until = time.monotonic() + within_s
    rng, pool = random.Random(seed), seeds()
    shares = [share for _, share in READERS.values()]
    counts = dict.fromkeys(READERS, 0)
    finds: list[str] = []
    slowest: tuple[float, str] = (0.0, "")
    base_kib = 0
    for number in range(inputs):
        if not number % 100 and time.monotonic() > until:
            break
        name = rng.choices(list(READERS), shares)[0]
        text = mutated(rng, pool)
        begun = time.process_time()
        try:
            READERS[name][0](text)
        except (OrchError, frames.BadFrame, ValueError, RecursionError) as error:
            if name not in ("frames", "api bodies", "inventory"):
                finds.append(f"{name}: {type(error).__name__}: {error}: {text[:80]!r}")
        except Exception as error:  # noqa: BLE001  any other one is what is looked for
            finds.append(f"{name}: {type(error).__name__}: {error}: {text[:80]!r}")
        took = time.process_time() - begun
        counts[name] += 1
        slowest = max(slowest, (took, name))
        if took > SLOW_S:
            finds.append(f"{name}: {took:.1f} s: {text[:80]!r}")
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
