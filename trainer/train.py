"""The training run, in order: target, documents, drafter, resume, steps, end.

It owns the order of things. Each part's own rules are in its own file.
"""

import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trainer import attempt, checkpoint
from trainer.ahead import Ahead
from trainer.attempt import Start, StopError, StopFlag
from trainer.batches import Batches, Part
from trainer.config import Config, dump
from trainer.corpus import Answers, Document, check_unused, make_documents
from trainer.drafter import new_drafter, start_compilers
from trainer.figures import Figures, TrainingError
from trainer.optim import AdamW, learning_rate
from trainer.pair import Pair
from trainer.runlog import RunLog
from trainer.step import Frozen, batch_loss
from trainer.targets import feature_layers, load_target, mask_token
from trainer.walk import acceptance_length


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
        run.close()
        log.close()
    spent = time.monotonic() - began
    figures = run.figures
    log.say(
        f"finished: {run.step} steps in {spent:.1f} s, loss {figures.first_loss:.4f} -> "
        f"{figures.last_loss:.4f}, acceptance {figures.acceptance:.2f}, "
        f"checkpoints in {start.folder}"
    )
    return 0


class Run:
    """The state that a run carries from step to step."""

    def __init__(self, config: Config, start: Start, stop: StopFlag, log: RunLog) -> None:
        self.config, self.start, self.stop, self.log = config, start, stop, log
        self.step = self.saved_step = 0
        self.figures = Figures(config, log)
        self.ahead: Ahead[list[Part]] | None = None

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
        if self.device.type == "cuda":
            start_compilers()
        if config.threads:
            torch.set_num_threads(config.threads)
        # --- target
        self.target = load_target(config.target.path, self.device, dtype)
        decoder = self.target.decoder
        self.layers = feature_layers(config, self.target)
        self.mask_token = mask_token(config, self.target)
        self.frozen = Frozen(embed_Vh=decoder.embed.weight, head_Vh=decoder.head.weight)
        # --- checkpoints already there
        resume_from = attempt.resume_from(self.start, self.log.warn)
        # --- documents
        self.log.record("data", 0)
        self.log.say("phase data: answers of the target")
        train_documents = self._documents(held_out=False)
        self.eval_documents = self._documents(held_out=True)
        batches = Batches(train_documents, config, self.mask_token, self.device)
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
        self.ahead = Ahead(batches.parts)

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
        assert self.ahead is not None
        began = time.monotonic()
        parts = self.ahead.take(self.step)
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
        self.figures.launched(
            self.step, began=began, lr=lr,
            figures=(torch.stack(loss).sum(), norm, torch.stack(hits).sum()),
            rows=sum(part.plan.rows for part in parts),
            drafted=sum(part.drafted for part in parts),
        )  # fmt: skip
        if self.device.type == "cpu":
            self.figures.flush()

    def evaluate(self) -> None:
        """Walk the acceptance length on held-out answers."""
        self.figures.flush()
        drafter = self.config.drafter
        pair = Pair(
            drafter=self.drafter, target=self.target, layers=self.layers, block=drafter.block,
            window=drafter.window, mask_token=self.mask_token,
        )  # fmt: skip
        self.figures.acceptance = acceptance_length(pair, self.eval_documents)
        self.log.record("eval", self.step, acceptance=self.figures.acceptance)

    def unsaved(self) -> bool:
        """Whether there are steps that no checkpoint holds."""
        return self.ahead is not None and self.step > self.saved_step

    def save(self) -> Path:
        """Write a checkpoint of the present step."""
        self.figures.flush()
        began = time.monotonic()
        state: dict[str, Any] = {
            "step": self.step,
            "optimizer": self.optimizer.state(),
            **self.figures.state(),
        }
        keep = self.config.checkpoint.keep
        path = checkpoint.save(self.start.folder, self.step, state, dump(self.config), keep)
        self.saved_step = self.step
        self.log.record("checkpoint", self.step, seconds=round(time.monotonic() - began, 4))
        return path

    def close(self) -> None:
        """End the thread that plans ahead."""
        if self.ahead is not None:
            self.ahead.close()

    def _load(self, path: Path) -> None:
        state, saved = checkpoint.load(path)
        attempt.check_same(self.config, saved, path)
        self.optimizer.load_state(state["optimizer"])
        self.step = self.saved_step = state["step"]
        self.figures.load_state(state)
        self.log.say(f"resumed from {path} at step {self.step}")

    def _documents(self, *, held_out: bool) -> list[Document]:
        answers = Answers(
            target=self.target, config=self.config.corpus, held_out=held_out,
            seed=self.config.seed, cache=self.start.folder,
        )  # fmt: skip
        documents = make_documents(answers, self.stop.check)
        check_unused(self.mask_token, documents)
        return documents

    def _forward(self, part: Part) -> tuple[Tensor, Tensor, Tensor]:
        batch = part.batch.to(self.device)
        with torch.no_grad():
            _, features = self.target.decoder(
                batch.tokens_BS, doc_BS=batch.doc_BS, position_BS=batch.context_position_BS,
                feature_layers=self.layers, want_logits=False,
            )  # fmt: skip
        assert features is not None
        plan = part.plan.to(self.device)
        return batch_loss(self.drafter, self.frozen, features, batch, plan, self.config.loss)
