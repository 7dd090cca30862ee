"""The training run, in order: target, documents, drafter, resume, steps, end.

It owns the order of things and the reaction to signals. Each part's own rules are in its
own file.
"""

import math
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from trainer import checkpoint
from trainer.batches import Batches, Part
from trainer.config import Config, ConfigError, dump
from trainer.corpus import Document, make_documents
from trainer.decoder import spread_layers
from trainer.drafter import new_drafter
from trainer.optim import AdamW, learning_rate
from trainer.runlog import RunLog, step_line
from trainer.staging import stage
from trainer.step import Frozen, batch_loss, stage_batch
from trainer.targets import Target, load_target
from trainer.walk import acceptance_length


class StopError(Exception):
    """A signal asked for the end; carries its number."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class TrainingError(RuntimeError):
    """Training cannot go on; its text says at which step and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A step that is launched and whose figures are not read yet."""

    step: int
    began: float
    lr: float
    norm: Tensor
    loss: Tensor
    hits: Tensor
    rows: int
    drafted: int


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
        self.pending: Pending | None = None
        self.flushed_at = 0.0

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
        self.batches = Batches(train_documents, config, self.mask_token, self.device)
        # --- drafter
        self.drafter = new_drafter(
            decoder.shape, config.drafter.layers, len(self.layers),
            seed=config.seed, device=self.device, dtype=dtype,
        )  # fmt: skip
        if self.device.type == "cuda":
            self.drafter.compile_layers()
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
        """Launch one optimizer step; on CUDA its line is written once the next is launched.

        So the host never waits there for the step that it has just launched.
        """
        config = self.config
        began = time.monotonic()
        parts = self.batches.parts(self.step)
        denominator = sum(part.plan.denominator for part in parts)
        if denominator == 0:
            raise TrainingError(f"step {self.step + 1}: no slot of the batch is supervised")
        loss, hits = [], []
        for part in parts:
            summed, _, hit_M = self._forward(part)
            # One thread only may run compiled code, and on CUDA autograd has its own.
            with torch.autograd.set_multithreading_enabled(False):
                (summed / denominator).backward()
            loss.append(summed.detach() / denominator)
            hits.append(hit_M.sum())
        lr = learning_rate(config.optim, self.step, config.total_steps)
        norm = self.optimizer.step(lr)
        self.step += 1
        pending = Pending(
            step=self.step, began=began, lr=lr, norm=norm,
            loss=torch.stack(loss).sum(), hits=torch.stack(hits).sum(),
            rows=sum(part.plan.rows for part in parts),
            drafted=sum(part.drafted(config.drafter.block) for part in parts),
        )  # fmt: skip
        self.flush()
        self.pending = pending
        if self.device.type == "cpu":
            self.flush()

    def flush(self) -> None:
        """Write the line of the step that was launched last."""
        if self.pending is None:
            return
        pending, self.pending = self.pending, None
        loss, norm = float(pending.loss), float(pending.norm)
        if not math.isfinite(loss) or not math.isfinite(norm):
            raise TrainingError(
                f"loss is nan or infinite at step {pending.step} (loss {loss}, gradient norm "
                f"{norm}); the last checkpoint is from before it: lower optim.lr and resume"
            )
        self.first_loss = loss if math.isnan(self.first_loss) else self.first_loss
        self.last_loss = loss
        now = time.monotonic()
        speed = pending.drafted / (now - max(pending.began, self.flushed_at))
        self.flushed_at = now
        self.log.record(
            "train", pending.step, loss=loss, lr=pending.lr, tokens_per_s=round(speed, 1),
            grad_norm=norm, slot_accuracy=int(pending.hits) / pending.rows,
            acceptance=self.acceptance,
        )  # fmt: skip
        total = self.config.total_steps
        if pending.step % self.config.log_every == 0 or pending.step in (1, total):
            walked = None if math.isnan(self.acceptance) else self.acceptance
            self.log.say(
                step_line(
                    pending.step, total, loss=loss, speed=speed, lr=pending.lr, acceptance=walked
                )
            )

    def evaluate(self) -> None:
        """Walk the acceptance length on held-out answers."""
        self.flush()
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
        self.flush()
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

    def _forward(self, part: Part) -> tuple[Tensor, Tensor, Tensor]:
        config, device = self.config, self.device
        tokens, doc, position = stage(
            [part.rows.tokens_BS, part.rows.doc_BS, part.rows.position_BS], device
        )
        with torch.no_grad():
            _, features = self.target.decoder(
                tokens, doc_BS=doc, position_BS=position,
                feature_layers=self.layers, want_logits=False,
            )  # fmt: skip
        assert features is not None
        batch = stage_batch(
            part.rows, part.blocks,
            block=config.drafter.block, window=config.drafter.window, device=device,
        )  # fmt: skip
        plan = part.plan.to(device)
        return batch_loss(self.drafter, self.frozen, features, batch, plan, config.loss)


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
