"""The whole method on a CPU, offline, in ten minutes: target, answers, drafter, figures.

    python -m bench.trainer.story --out FOLDER [--parts target,answers,drafter,figures]

`target` pretrains a byte-level target on Python's own sources (five minutes on two cores),
`answers` lets it answer, `drafter` trains on the answers (four), `figures` measures on
prompts held out from all of it. Each part leaves its work in FOLDER and prints one JSON
line, so that they can be run one at a time. Acceptance is walked, and stands beside a
drafter without weights (prompt lookup); times are those of this machine.
"""

import argparse
import dataclasses
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

CONFIG = Path("trainer/configs/cpu-story.toml")
THREADS = 2
DECODED = 8
"""Prompts that are decoded with a clock beside them."""


def target(folder: Path) -> dict[str, Any]:
    """Pretrain the target."""
    from trainer.pretrain import Recipe, pretrain

    recipe = Recipe(
        out=folder / "target.pt", seconds=300, batch=8, hidden=128, layers=8, ffn=256,
        threads=THREADS,
    )  # fmt: skip
    return {"nats_a_byte": round(pretrain(recipe), 4)}


def answers(folder: Path) -> dict[str, Any]:
    """Let the target answer the training and the held-out prompts."""
    import torch

    from trainer.corpus import Answers
    from trainer.targets import load_target

    torch.set_num_threads(THREADS)
    config = _config(folder)
    told = load_target(config.target.path, torch.device("cpu"), torch.float32)
    count = {}
    for held_out in (False, True):
        made = Answers(
            target=told, config=config.corpus, held_out=held_out, seed=config.seed,
            cache=folder / "drafter",
        )  # fmt: skip
        made.make(lambda: None)
        found = made.read()
        count["held_out" if held_out else "training"] = {
            "answers": len(found),
            "tokens": sum(len(d.tokens) - d.prompt for d in found),
            "loops": round(sum(d.looped for d in found) / len(found), 3),
        }
    return count


def drafter(folder: Path) -> dict[str, Any]:
    """Train the drafter, by the command line as anybody would."""
    argv = [sys.executable, "-m", "trainer", "--config", str(CONFIG), "--fresh"]
    for setting in _settings(folder):
        argv += ["--set", setting]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    return {"last_words": done.stdout.splitlines()[-1]}


def figures(folder: Path) -> dict[str, Any]:
    """Acceptance at the temperature and greedy, loops, and what decoding takes."""
    import torch

    from trainer.corpus import Answers
    from trainer.restore import restore
    from trainer.walk import acceptance_length

    torch.set_num_threads(THREADS)
    found = restore(folder / "drafter", ends_only=False)
    pair, config, report = found.pair, found.config, dict[str, Any]()
    prompts: list[list[int]] = []
    for name, temperature in (("temperature", config.corpus.temperature), ("greedy", 0.0)):
        corpus = dataclasses.replace(config.corpus, temperature=temperature)
        made = Answers(
            target=pair.target, config=corpus, held_out=True, seed=config.seed,
            cache=folder / "drafter",
        )  # fmt: skip
        made.make(lambda: None)
        documents = made.read()
        whole = [d for d in documents if not d.looped]
        report[name] = {
            "temperature": temperature,
            "answers": len(documents),
            "loops": round(1 - len(whole) / len(documents), 3),
            "acceptance": round(acceptance_length(pair, documents), 3),
            "acceptance_loop_free": round(acceptance_length(pair, whole), 3),
            "prompt_lookup": round(lookup_length(documents, pair.block), 3),
            "prompt_lookup_loop_free": round(lookup_length(whole, pair.block), 3),
        }
        prompts = [list(d.tokens[: d.prompt]) for d in documents[:DECODED]]
        report[name] |= _decoding(pair, prompts, config.corpus.answer_tokens, temperature)
    return report


def lookup_length(documents: Sequence[Any], block: int) -> float:
    """Tokens for each verifying pass with prompt lookup as the drafter, walked."""
    from trainer.speculate import prompt_lookup
    from trainer.walk import accepted_counts, walk

    tokens = passes = 0
    for document in documents:
        drafts = [
            prompt_lookup(document.tokens[: at + 1], block - 1)
            for at in range(document.prompt, len(document.tokens) - 1)
        ]
        answer = document.tokens[document.prompt :]
        given, took = walk(accepted_counts(drafts, answer), len(answer))
        tokens, passes = tokens + given, passes + took
    return tokens / passes if passes else 0.0


def _decoding(pair: Any, prompts: list[list[int]], limit: int, temperature: float) -> Any:
    """Seconds for the same answers, token by token and with the drafter."""
    from trainer.speculate import Chooser, decode, decode_plainly

    chooser = Chooser(temperature=temperature, seed=1)
    spent, tokens, passes, same = {"plain": 0.0, "drafted": 0.0}, 0, 0, 0
    for prompt in prompts:
        began = time.perf_counter()
        plain = decode_plainly(pair.target, prompt, limit, chooser)
        middle = time.perf_counter()
        session, trace = decode(pair, prompt, limit, chooser)
        spent["drafted"] += time.perf_counter() - middle
        spent["plain"] += middle - began
        tokens, passes = tokens + len(session.answer), passes + len(trace.given)
        same += session.answer == plain
    return {
        "decoded": {
            "answers": len(prompts),
            "equal_to_the_targets_own": same,
            "tokens": tokens,
            "passes": passes,
            "plain_s": round(spent["plain"], 2),
            "drafted_s": round(spent["drafted"], 2),
            "speed_up": round(spent["plain"] / spent["drafted"], 2),
        }
    }


def _settings(folder: Path) -> tuple[str, ...]:
    return (f"target.path={folder / 'target.pt'}", f"checkpoint_dir={folder / 'drafter'}")


def _config(folder: Path) -> Any:
    from trainer.configfile import load

    return load(CONFIG, _settings(folder))


def main() -> int:
    """Run the parts asked for."""
    parts: dict[str, Callable[[Path], dict[str, Any]]] = {
        "target": target, "answers": answers, "drafter": drafter, "figures": figures,
    }  # fmt: skip
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--parts", default=",".join(parts))
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    for name in chosen.parts.split(","):
        began = time.monotonic()
        found = parts[name](chosen.out)
        print(json.dumps({name: found | {"seconds": round(time.monotonic() - began, 1)}}))
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
