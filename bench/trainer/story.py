"""The whole method on a CPU, offline, in ten minutes: target, answers, drafter, figures.

    python -m bench.trainer.story --out FOLDER [--parts target,answers,drafter,figures]

`target` pretrains a byte-level target on Python's own sources (five minutes on two cores),
`answers` lets it answer, `drafter` trains on the answers (four), `figures` measures on
prompts held out from all of it. Each part leaves its work in FOLDER and prints one JSON
line, so that they can be run one at a time; a cut one goes on where it was. Acceptance is
walked, and stands beside a drafter without weights (prompt lookup); times are those of this
machine.
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
"""Workers of one thread each: threads inside an operator wait for each other at every one."""
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
    """Let the target answer the training and the held-out prompts, in as many processes."""
    argv = [sys.executable, "-m", "bench.trainer.story", "--out", str(folder), "--share"]
    running = [subprocess.Popen([*argv, str(share)]) for share in range(THREADS)]
    codes = [process.wait() for process in running]
    if any(codes):
        raise SystemExit("an answering process failed")
    config, told = _config(folder), _target(folder)
    count = {}
    for held_out in (False, True):
        found = _answers(folder, told, config.corpus, held_out=held_out).read()
        count["held_out" if held_out else "training"] = {
            "answers": len(found),
            "tokens": sum(len(d.tokens) - d.prompt for d in found),
            "loops": round(sum(d.looped for d in found) / len(found), 3),
        }
    return count


def answer_share(folder: Path, share: int) -> None:
    """One process's share of the answers; those that are there already stay."""
    import torch

    torch.set_num_threads(1)
    config, told = _config(folder), _target(folder)
    for held_out in (False, True):
        made = _answers(folder, told, config.corpus, held_out=held_out)
        made.make(lambda: None, share=share, shares=THREADS)


def drafter(folder: Path) -> dict[str, Any]:
    """Train the drafter, by the command line as anybody would; go on where a cut run left it."""
    argv = [sys.executable, "-m", "trainer", "--config", str(CONFIG)]
    argv += ["--resume"] if any((folder / "drafter").glob("step-*")) else []
    for setting in _settings(folder):
        argv += ["--set", setting]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    return {"last_words": done.stdout.splitlines()[-1]}


def figures(folder: Path) -> dict[str, Any]:
    """Acceptance at the temperature and greedy, loops, and what decoding takes on one core."""
    import torch

    from trainer.restore import restore
    from trainer.walk import acceptance_length

    torch.set_num_threads(1)
    last = folder / "drafter" / f"step-{_config(folder).total_steps:08d}"
    if not last.is_dir():
        print(json.dumps({"drafter": drafter(folder)}), flush=True)
    found = restore(last, ends_only=False)
    pair, config, report = found.pair, found.config, dict[str, Any](step=found.step)
    for name, temperature in (("temperature", config.corpus.temperature), ("greedy", 0.0)):
        corpus = dataclasses.replace(config.corpus, temperature=temperature)
        made = _answers(folder, pair.target, corpus, held_out=True)
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


def _target(folder: Path) -> Any:
    import torch

    from trainer.targets import load_target

    return load_target(str(folder / "target.pt"), torch.device("cpu"), torch.float32)


def _answers(folder: Path, told: Any, corpus: Any, *, held_out: bool) -> Any:
    from trainer.corpus import Answers

    return Answers(
        target=told, config=corpus, held_out=held_out, seed=_config(folder).seed,
        cache=folder / "drafter",
    )  # fmt: skip


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
    parser.add_argument("--share", type=int, default=-1, help="of the answers, for this process")
    chosen = parser.parse_args()
    if chosen.share >= 0:
        answer_share(chosen.out, chosen.share)
        return 0
    chosen.out.mkdir(parents=True, exist_ok=True)
    for name in chosen.parts.split(","):
        began = time.monotonic()
        found = parts[name](chosen.out)
        print(json.dumps({name: found | {"seconds": round(time.monotonic() - began, 1)}}))
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
