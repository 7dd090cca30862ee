"""The training run, in order: target, documents, drafter, resume, steps, end.

It owns the order of things and the reaction to signals. Each part's own rules are in its
own file.
"""

import math
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from trainer import checkpoint
from trainer.blocks import draw_anchors, make_blocks
from trainer.config import Config, ConfigError, dump
from trainer.corpus import Document, make_documents
from trainer.decoder import spread_layers
from trainer.drafter import Drafter, initialise
from trainer.headloss import Plan, plan_slots
from trainer.optim import AdamW, learning_rate
from trainer.packing import RowOrder
from trainer.runlog import RunLog, step_line
from trainer.step import Frozen, attention_for, batch_loss
from trainer.targets import Target, load_target
from trainer.walk import acceptance_length


class StopError(Exception):
    """A signal asked for the end; carries its number."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class TrainingError(RuntimeError):
    """Training cannot go on; its text says at which step and why."""


class StopFlag:
    """Remembers SIGTERM and Ctrl-C until the loop is between two steps."""

    def __init__(self) -> None:
        self._number = 0
        signal.signal(signal.SIGTERM, self._remember)
        signal.signal(signal.SIGINT, self._remember)

    def _remember(self, number: int, _frame: FrameType | None) -> None:
        self._number = number

    def check(self) -> None:
        """Raise StopError if a signal has come."""
        if self._number:
            raise StopError(self._number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """How this attempt begins."""

    folder: Path
    """Where checkpoints lie."""
    run_folder: Path | None
    """$ORCH_RUN_DIR."""
    resume: bool
    must_resume: bool
    """--resume was given: having nothing to resume from is an error."""
    fresh: bool


def start_of(config: Config, *, resume: bool, fresh: bool) -> Start:
    """Read the launcher's variables: ORCH_RUN_DIR, and ORCH_ATTEMPT above 1 resumes."""
    run = os.environ.get("ORCH_RUN_DIR")
    attempt = os.environ.get("ORCH_ATTEMPT", "1")
    base = Path(run) / "checkpoints" if run else Path("runs") / time.strftime("%Y%m%d-%H%M%S")
    return Start(
        folder=Path(config.checkpoint_dir) if config.checkpoint_dir else base,
        run_folder=Path(run) if run else None,
        resume=resume or (attempt.isdigit() and int(attempt) > 1),
        must_resume=resume,
        fresh=fresh,
    )


def main(config: Config, start: Start) -> int:
    """Train `config` to its end; returns the exit code: 0, or 128 + a signal's number."""
    stop = StopFlag()
    log = RunLog(start.run_folder)
    log.record("start", 0)
    began = time.monotonic()
    run = Run(config, start, stop, log)
    try:
        run.prepare()
        run.train()
    except StopError as stopped:
        saved = f"saved {run.save()}" if run.unsaved() else "nothing new to save"
        log.record("stopped", run.step)
        log.say(f"stopped by {stopped} at step {run.step}/{config.total_steps}; {saved}")
        return 128 + stopped.number
    finally:
        log.close()
    spent = time.monotonic() - began
    log.say(
        f"finished: {run.step} steps in {spent:.1f} s, loss {run.first_loss:.4f} -> "
        f"{run.last_loss:.4f}, acceptance {run.acceptance:.2f}, checkpoints in {start.folder}"
    )
    return 0


class Run:
    """The state that a run carries from step to step."""

    def __init__(self, config: Config, start: Start, stop: StopFlag, log: RunLog) -> None:
        self.config, self.start, self.stop, self.log = config, start, stop, log
        self.step = self.saved_step = 0
        self.first_loss = self.last_loss = math.nan
        self.acceptance = math.nan
        self.ready = False

    def prepare(self) -> None:
        """Everything before the first step."""
        config = self.config
        # --- device
        self.device = torch.device(
            config.device
            if config.device != "auto"
            else ("cuda" if torch.cuda.is_available() else "cpu")
        )
        dtype = torch.bfloat16 if self.device.type == "cuda" else torch.float32
        if config.threads:
            torch.set_num_threads(config.threads)
        # --- target
        self.target = load_target(config.target.path, self.device, dtype)
        decoder = self.target.decoder
        self.layers = _feature_layers(config, self.target)
        self.mask_token = _mask_token(config, self.target)
        self.frozen = Frozen(embed_Vh=decoder.embed.weight, head_Vh=decoder.head.weight)
        # --- checkpoints already there
        resume_from = self._resume_from()
        # --- documents
        self.log.record("data", 0)
        self.log.say("phase data: answers of the target")
        train_documents = self._documents(held_out=False)
        self.eval_documents = self._documents(held_out=True)
        self.order = RowOrder(train_documents, config.corpus, config.seed)
        # --- drafter
        self.drafter = Drafter(decoder.shape, config.drafter.layers, len(self.layers))
        initialise(self.drafter, config.seed)
        self.drafter.to(device=self.device, dtype=dtype)
        self.optimizer = AdamW(self.drafter.parameters(), config.optim)
        if resume_from is not None:
            self._load(resume_from)
        self.ready = True

    def train(self) -> None:
        """Steps until total_steps, with evaluation and checkpoints between."""
        config = self.config
        if self.step == 0:
            self.evaluate()
        while self.step < config.total_steps:
            self.stop.check()
            self.train_step()
            last = self.step == config.total_steps
            if last or self.step % config.eval_every == 0:
                self.evaluate()
            if last or self.step % config.checkpoint.every == 0:
                self.save()

    def train_step(self) -> None:
        """One optimizer step and its line."""
        config = self.config
        began = time.monotonic()
        parts = [self._part(index) for index in range(config.optim.accumulate)]
        denominator = sum(part.plan.denominator for part in parts)
        if denominator == 0:
            raise TrainingError(f"step {self.step + 1}: no slot of the batch is supervised")
        loss = 0.0
        hits = rows = drafted = 0
        for part in parts:
            summed, _, hit_M = part.loss()
            (summed / denominator).backward()
            loss += float(summed.detach()) / denominator
            hits += int(hit_M.sum())
            rows += part.plan.rows
            drafted += part.drafted
        lr = learning_rate(config.optim, self.step, config.total_steps)
        norm = float(self.optimizer.step(lr))
        self.step += 1
        if not math.isfinite(loss) or not math.isfinite(norm):
            raise TrainingError(
                f"loss is nan or infinite at step {self.step} (loss {loss}, gradient norm {norm}); "
                "the last checkpoint is from before it: lower optim.lr and resume"
            )
        self.first_loss = loss if math.isnan(self.first_loss) else self.first_loss
        self.last_loss = loss
        speed = drafted / (time.monotonic() - began)
        self.log.record(
            "train",
            self.step,
            loss=loss,
            lr=lr,
            tokens_per_s=round(speed, 1),
            grad_norm=norm,
            slot_accuracy=hits / rows,
            acceptance=self.acceptance,
        )
        if self.step % config.log_every == 0 or self.step in (1, config.total_steps):
            walked = None if math.isnan(self.acceptance) else self.acceptance
            self.log.say(
                step_line(
                    self.step, config.total_steps, loss=loss, speed=speed, lr=lr, acceptance=walked
                )
            )

    def evaluate(self) -> None:
        """Walk the acceptance length on held-out answers."""
        drafter = self.config.drafter
        self.acceptance = acceptance_length(
            self.drafter,
            self.frozen,
            self.target,
            self.layers,
            self.eval_documents,
            drafter.block,
            drafter.window,
            self.mask_token,
        )
        self.log.record("eval", self.step, acceptance=self.acceptance)

    def unsaved(self) -> bool:
        """Whether there are steps that no checkpoint holds."""
        return self.ready and self.step > self.saved_step

    def save(self) -> Path:
        """Write a checkpoint of the present step."""
        began = time.monotonic()
        state: dict[str, Any] = {
            "step": self.step,
            "optimizer": self.optimizer.state(),
            "acceptance": self.acceptance,
            "first_loss": self.first_loss,
            "last_loss": self.last_loss,
        }
        keep = self.config.checkpoint.keep
        path = checkpoint.save(self.start.folder, self.step, state, dump(self.config), keep)
        self.saved_step = self.step
        self.log.record("checkpoint", self.step, seconds=round(time.monotonic() - began, 4))
        return path

    def _resume_from(self) -> Path | None:
        folder = self.start.folder
        if self.start.fresh:
            checkpoint.clear(folder)
        if self.start.resume:
            path = checkpoint.newest_valid(folder, self.log.warn)
            if path is None and self.start.must_resume:
                raise ConfigError(
                    f"--resume: {folder} holds no valid checkpoint; leave --resume out to start"
                )
            return path
        if checkpoint.any_in(folder):
            raise ConfigError(
                f"checkpoint_dir: {folder} already holds checkpoints; go on with --resume, "
                "or --fresh removes them"
            )
        return None

    def _load(self, path: Path) -> None:
        state, saved = checkpoint.load(path)
        for part in ("target", "drafter", "corpus", "seed"):
            if saved[part] != _plain(dump(self.config)[part]):
                raise ConfigError(
                    f"{part}: differs from that of {path}; resume with the saved one "
                    f"({path / 'config.json'}), or start anew with --fresh"
                )
        self.optimizer.load_state(state["optimizer"])
        self.step = self.saved_step = state["step"]
        self.acceptance = state["acceptance"]
        self.first_loss, self.last_loss = state["first_loss"], state["last_loss"]
        self.log.say(f"resumed from {path} at step {self.step}")

    def _documents(self, *, held_out: bool) -> list[Document]:
        return make_documents(
            self.target,
            self.config.corpus,
            held_out=held_out,
            seed=self.config.seed,
            cache=self.start.folder,
            between=self.stop.check,
        )

    def _part(self, index: int) -> "Part":
        config = self.config
        number = self.step * config.optim.accumulate + index
        rows = self.order.batch(number * config.optim.rows, config.optim.rows)
        generator = torch.Generator().manual_seed(config.seed * 1_000_003 + number)
        anchor_BN, keep_BN = draw_anchors(
            rows, config.corpus.anchors, config.corpus.row_anchors, generator
        )
        blocks = make_blocks(rows, anchor_BN, keep_BN, config.drafter.block, self.mask_token)
        plan = plan_slots(blocks, config.loss, pad=self.device.type == "cuda")

        def loss() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            with torch.no_grad():
                _, features = self.target.decoder(
                    rows.tokens_BS.to(self.device),
                    doc_BS=rows.doc_BS.to(self.device),
                    position_BS=rows.position_BS.to(self.device),
                    feature_layers=self.layers,
                    want_logits=False,
                )
            assert features is not None
            attend = attention_for(rows, blocks, config.drafter.block, config.drafter.window)
            return batch_loss(
                self.drafter,
                self.frozen,
                features,
                rows,
                blocks,
                plan.to(self.device),
                attend,
                config.loss,
            )

        return Part(plan=plan, drafted=int(keep_BN.sum()) * config.drafter.block, loss=loss)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One micro-batch: planned before the step, so that the denominator is known first."""

    plan: Plan
    drafted: int
    loss: Callable[[], tuple[torch.Tensor, torch.Tensor, torch.Tensor]]


def _feature_layers(config: Config, target: Target) -> tuple[int, ...]:
    depth = target.decoder.shape.layers
    chosen = config.target.feature_layers
    if not chosen:
        try:
            return spread_layers(config.target.features or config.drafter.layers, depth)
        except ValueError as error:
            raise ConfigError(f"target.features: {error}") from error
    if max(chosen) >= depth:
        raise ConfigError(f"target.feature_layers: the target's layers are 0 to {depth - 1}")
    return chosen


def _mask_token(config: Config, target: Target) -> int:
    token = config.drafter.mask_token
    if token >= target.decoder.shape.vocab:
        raise ConfigError(f"drafter.mask_token: {token} is outside the target's vocabulary")
    return token if token >= 0 else target.mask_token


def _plain(value: Any) -> Any:
    """As JSON gives it back: tuples are lists."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return list(value) if isinstance(value, tuple) else value
