"""The figures of a step: its speed is its own, and a loss that is not finite ends the run."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from trainer.config import Config
from trainer.figures import Figures, Pace, TrainingError
from trainer.runlog import RunLog


def test_the_speed_after_an_evaluation_is_the_step_s_own() -> None:
    """Steps of one second keep their speed with the host ahead, beside a long evaluation too."""
    pace = Pace()
    # Launched at once, each done a second after the one before it; 100 tokens each.
    assert pace.speed(100, began=0.0, ended=1.0) == pytest.approx(100)
    assert pace.speed(100, began=0.1, ended=2.0) == pytest.approx(100)
    # The evaluation from 2 to 60 is in no step.
    assert pace.speed(100, began=60.0, ended=61.0) == pytest.approx(100)
    assert pace.speed(100, began=60.1, ended=62.0) == pytest.approx(100)


def test_each_line_has_its_own_step_s_speed(
    small_config: Callable[..., Config], tmp_path: Path
) -> None:
    """A step's line is written once the next is launched, or when it is asked for."""
    now = 0.0
    log = RunLog(tmp_path, 9)
    figures = Figures(small_config(), log, clock=lambda: now)
    loss, norm, hits = torch.tensor(2.5), torch.tensor(1.0), torch.tensor(3)

    def launch(step: int) -> None:
        figures.launched(
            step, began=now, lr=1e-3, figures=(loss, norm, hits), rows=6, drafted=100, flops=1.0
        )

    launch(1)
    now = 1.0
    launch(2)
    now = 2.0
    figures.flush()
    now = 50.0
    launch(3)
    now = 51.0
    figures.flush()
    figures.flush()
    log.close()
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2, 3]
    assert [line["tokens_per_s"] for line in lines] == [100.0, 100.0, 100.0]
    assert {line["slot_accuracy"] for line in lines} == {0.5}
    assert all(line["memory_bytes"] > 1 << 20 for line in lines)


def test_a_step_read_at_once_has_the_time_of_its_launch_too(
    small_config: Callable[..., Config], tmp_path: Path
) -> None:
    """Of a host slower than its device each step costs its launch, also before a checkpoint."""
    now = 0.0
    log = RunLog(tmp_path, 9)
    figures = Figures(small_config(), log, clock=lambda: now)
    values = (torch.tensor(2.5), torch.tensor(1.0), torch.tensor(3))
    for step in (1, 2, 3):
        began, now = now, now + 1.0
        figures.launched(step, began=began, lr=1e-3, figures=values, rows=6, drafted=100, flops=1.0)
    figures.flush()  # a checkpoint reads the third as soon as it is launched
    log.close()
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["tokens_per_s"] for line in lines] == [100.0, 100.0, 100.0]


@pytest.mark.parametrize(("loss", "norm"), [(float("nan"), 1.0), (1.0, float("inf"))])
def test_a_loss_or_gradient_that_is_not_finite_ends_the_run(
    loss: float, norm: float, small_config: Callable[..., Config]
) -> None:
    """The sentence names the step and what to do."""
    figures = Figures(small_config(), RunLog(None, 9))
    values = (torch.tensor(loss), torch.tensor(norm), torch.tensor(0))
    figures.launched(7, began=0.0, lr=1e-3, figures=values, rows=1, drafted=1, flops=1.0)
    with pytest.raises(TrainingError, match=r"at step 7 .*lower optim\.lr"):
        figures.flush()
