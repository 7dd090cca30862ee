"""The training run, in order: neighbours, preparation, resume, steps, end.

It owns the order of things. Each part's own rules are in its own file.
"""

import time
from typing import Any

import torch
from torch import Tensor

from trainer import attempt, checkpoint
from trainer.ahead import Ahead
from trainer.attempt import Start, StopError, StopFlag
from trainer.batches import Part
from trainer.checkpoint import Saver
from trainer.config import Config
from trainer.configfile import dump
from trainer.crew import Crew, Place
from trainer.drafter import assert_never_dense
from trainer.feed import RingFeed
from trainer.figures import Figures, TrainingError
from trainer.flops import step_flops
from trainer.headloss import Plan
from trainer.launch import die_with_launcher
from trainer.muon import new_optimizer
from trainer.optim import learning_rate
from trainer.prepare import Ready, prepare
from trainer.profiling import Profile
from trainer.replay import SMALL_FLOP, Replay
from trainer.runlog import RunLog
from trainer.schedule import better_split, evaluates_after
from trainer.step import Batch, batch_loss
from trainer.walk import Sizes, drafts_everywhere, walk_document


def main(config: Config, start: Start) -> int:
    """Train `config` to its end; returns the exit code: 0, or 128 + a signal's number."""
    die_with_launcher()
    stop = StopFlag()
    crew = Crew(config, Place.read())
    device = crew.device(config.device)
    crew.join(device)
    start = crew.from_leader(lambda: start)
    log = RunLog(start.run_folder, config.total_steps, silent=not crew.leads)
    log.record("start", 0)
    run: Run | None = None
    try:
        ready = prepare(config, start, crew, device, stop, log)
        if ready.server is not None:
            ready.server.serve(crew.from_leader(lambda: 0))
            crew.leave()
            return 128 + stop.number if stop.number else 0
        run = Run(config, start, stop, log, crew, ready)
        run.train()
    except StopError as stopped:
        words = "nothing new to save" if run is None else run.save_at_stop()
        step = 0 if run is None else run.step
        log.record("stopped", step)
        log.say(f"stopped by {stopped} at step {step}/{config.total_steps}; {words}")
        return 128 + stopped.number
    finally:
        if run is not None:
            run.close()
        log.close()
    log.say(run.last_words())
    crew.leave()
    return 0


class Run:
    """The state that a drafter's process carries from step to step."""

    def __init__(
        self, config: Config, start: Start, stop: StopFlag, log: RunLog, crew: Crew, ready: Ready
    ) -> None:
        self.config, self.start, self.stop, self.log = config, start, stop, log
        self.crew, self.ready = crew, ready
        self.began = time.monotonic()
        self.step = self.first_step = self.saved_step = 0
        self.drafter, self.device = ready.pair.drafter, ready.device
        self.sizes = Sizes.of(ready.documents)
        self.figures = Figures(config, log, drafters=crew.drafters)
        self.saver = Saver(start.folder, config.checkpoint.keep)
        self.optimizer = new_optimizer(self.drafter.parameters(), config.optim, crew.spread)
        if ready.resume_from is not None:
            self._load(ready)
        # Beside a communicator's own threads recording is untried.
        graphs = self.device.type == "cuda" and crew.drafters == 1
        self.replay = Replay(self._work, self.optimizer.parameters) if graphs else None
        self.ahead: Ahead[list[Part]] = Ahead(ready.batches.parts)
        if ready.compiled:
            self._warm_up()
        crew.from_leader(lambda: self.step)
        self.profile = Profile(start.folder, crew.name, log) if start.profile else None
        self.first_step, self.stepping = self.step, time.monotonic()

    def train(self) -> None:
        """Steps until total_steps, with evaluation and checkpoints between."""
        config = self.config
        if self.step == 0:
            self.evaluate()
        while self.step < config.total_steps:
            self.train_step()
            if self.profile is not None:
                self.profile.step()
            last = self.step == config.total_steps
            if evaluates_after(config, self.step):
                self.evaluate()
            if last or self.step % config.checkpoint.every == 0:
                self.save()
        self.ready.feed.close()
        self._saved()

    def train_step(self) -> None:
        """Launch one optimizer step; on CUDA its line is written once the next is launched.

        So the host never waits there for the step that it has just launched. All drafters stop
        before the same step, once one of them has got a signal.
        """
        config, crew = self.config, self.crew
        began = time.monotonic()
        parts = self.ahead.take(self.step)
        flops = [self._flops(part) for part in parts]
        signals, denominator, rows, drafted, work = crew.summed(
            [
                float(self.stop.number > 0),
                sum(part.plan.denominator for part in parts),
                sum(part.plan.rows for part in parts),
                sum(part.drafted for part in parts),
                sum(flops),
            ]
        )
        if signals:
            crew.leave()  # all are here: none is left in the midst of a collective
            raise StopError(self.stop.number or attempt.DEFAULT_SIGNAL)
        if denominator == 0:
            raise TrainingError(f"step {self.step + 1}: no slot of the batch is supervised")
        loss, hits = self._backward(parts, denominator)
        figures = torch.stack((loss, hits.to(loss.dtype)))
        # After the backward, not beside it: that could save no more than the 8 ms of a step of 138
        # that they take on two H200s.
        for x in (figures, *self._gradients()):
            crew.begin_sum(x)
        crew.finish_sums()
        lr = learning_rate(config.optim, self.step, config.total_steps)
        norm = self.optimizer.step(lr)
        self.step += 1
        if self.device.type == "cuda":
            assert_never_dense()
        self.figures.launched(
            self.step, began=began, lr=lr, figures=(figures[0], norm, figures[1]),
            rows=int(rows), drafted=int(drafted), flops=work,
        )  # fmt: skip
        if self.device.type == "cpu":
            self.figures.flush()

    def _gradients(self) -> list[Tensor]:
        return [p.grad for p in self.optimizer.parameters if p.grad is not None]

    def _backward(self, parts: list[Part], denominator: float) -> tuple[Tensor, Tensor]:
        """Gradients of all parts; their loss and hits, of this drafter alone."""
        loss, hits = [], []
        for number, part in enumerate(parts):
            if self.replay is not None and self._flops(part) < SMALL_FLOP:
                features = self.ready.feed.part(part)
                done = self.replay.part(part, features, 1 / denominator, first=number == 0)
            else:
                batch, plan = (
                    part.batch.to(self.device),
                    part.plan.over(part.tables.to(self.device)),
                )
                factor = torch.full((), 1 / denominator, device=self.device)
                done = self._work(batch, plan, self.ready.feed.part(part), factor)
            loss.append(done[0])
            hits.append(done[1])
        return torch.stack(loss).sum(), torch.stack(hits).sum()

    def _work(
        self, batch: Batch, plan: Plan, features_BSF: Tensor, factor: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Forward and backward of one part: its loss times `factor`, and its hits."""
        frozen = self.ready.pair.frozen
        summed, _, hit_M = batch_loss(
            self.drafter, frozen, features_BSF, batch, plan, self.config.loss
        )
        loss = summed * factor
        # One thread only may run compiled code, and on CUDA autograd has its own.
        with torch.autograd.set_multithreading_enabled(False):
            loss.backward()
        return loss.detach(), hit_M.sum()

    def _warm_up(self) -> None:
        """Compile for every shape, forward and backward, before anybody waits in a collective."""
        self.log.record("compile", self.step)
        self.log.say("phase compile")
        pair, part = self.ready.pair, self.ready.batches.parts(self.step)[0]
        batch, plan = part.batch.to(self.device), part.plan.to(self.device)
        dtype = pair.frozen.embed_Vh.dtype
        width = self.drafter.fc.in_features
        features = torch.zeros(*part.batch.shape, width, dtype=dtype, device=self.device)
        self._work(batch, plan, features, torch.ones((), device=self.device))
        for parameter in self.drafter.parameters():
            parameter.grad = None
        features = torch.zeros(1, self.sizes.length, width, dtype=dtype, device=self.device)
        for document in self.ready.documents[:1]:
            drafts_everywhere(pair, document, self.sizes, features)
        if self.device.type == "cuda":
            assert_never_dense()

    def evaluate(self) -> None:
        """Walk the acceptance length on held-out answers, each drafter its share."""
        self.figures.flush()
        tokens = passes = 0
        for number, document in enumerate(self.ready.documents):
            if number % self.crew.drafters == self.crew.number:
                features = self.ready.feed.document(number, self.sizes)
                given, took = walk_document(self.ready.pair, document, self.sizes, features)
                tokens, passes = tokens + given, passes + took
        summed = self.crew.summed([tokens, passes])
        self.figures.acceptance = summed[0] / summed[1] if summed[1] else 0.0
        self.log.record("eval", self.step, acceptance=self.figures.acceptance)

    def save(self) -> None:
        """Begin a checkpoint of the present step; one drafter's is everybody's."""
        self.figures.flush()
        self.saved_step = self.step
        if not self.crew.leads:
            return
        self._saved()
        state: dict[str, Any] = {
            "step": self.step,
            "optimizer": self.optimizer.state(),
            **self.figures.state(),
        }
        self.saver.begin(self.step, state, dump(self.config), self.figures.acceptance)

    def _saved(self) -> str:
        """Wait for the checkpoint being written, if there is one; returns what to say of it."""
        saved = self.saver.finish()
        if saved is None:
            return "nothing new to save"
        self.log.record(
            "checkpoint", saved.step, seconds=round(saved.seconds, 4),
            stood_still=round(saved.stood_still, 4),
        )  # fmt: skip
        return f"saved {saved.path}"

    def save_at_stop(self) -> str:
        """Save what no checkpoint holds; returns what to say of it."""
        if self.step > self.saved_step:
            self.save()
        self.ready.feed.close()
        return self._saved()

    def last_words(self) -> str:
        """The last line of a run that ended well."""
        figures, spent = self.figures, time.monotonic() - self.began
        return (
            f"finished: {self.step} steps in {spent:.1f} s, loss {figures.first_loss:.4f} -> "
            f"{figures.last_loss:.4f}, acceptance {figures.acceptance:.2f}{self._idle()}, "
            f"checkpoints in {self.start.folder}"
        )

    def _idle(self) -> str:
        """Which role waited, and which split of the processes would wait least."""
        feed, crew = self.ready.feed, self.crew
        if not isinstance(feed, RingFeed):
            return ""
        busy, idle = feed.ring.noted(crew.targets)
        spent = max(time.monotonic() - self.stepping, 1e-9)
        waited = min(feed.ring.waited_s / spent, 1.0)
        items = max(feed.count * crew.fed, 1)
        split = better_split(
            crew.targets, crew.fed, busy / items, spent * (1 - waited) / max(feed.count, 1)
        )
        return (
            f", idle: targets {idle / max(busy + idle, 1e-9):.0%}, drafters {waited:.0%} "
            f"({crew.targets} + {crew.fed}; balanced would be {split[0]} + {split[1]}; "
            f"ring in {feed.ring.place})"
        )

    def close(self) -> None:
        """End the threads that plan ahead and save, and the profile."""
        if self.profile is not None:
            self.profile.close()
        self.ahead.close()
        self.saver.close()

    def _load(self, ready: Ready) -> None:
        assert ready.resume_from is not None
        state, saved = checkpoint.load(ready.resume_from)
        attempt.check_same(self.config, saved, ready.resume_from)
        self.optimizer.load_state(state["optimizer"])
        self.step = self.saved_step = state["step"]
        self.figures.load_state(state)
        self.log.say(f"resumed from {ready.resume_from} at step {self.step}")

    def _flops(self, part: Part) -> float:
        config = self.config
        return step_flops(
            self.drafter.shape, layers=config.drafter.layers,
            features=len(self.ready.pair.layers), rows=config.optim.rows,
            context=config.corpus.row_tokens, blocks=config.corpus.row_anchors,
            block=config.drafter.block, pairs=part.pairs, supervised=part.plan.rows,
        )  # fmt: skip
