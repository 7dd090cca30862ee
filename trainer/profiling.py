"""A trace of a few steps, for `--profile`: where the time of a step goes.

It owns which steps, and the two files: a trace for a browser (ui.perfetto.dev) and a table.
"""

from pathlib import Path
from typing import Any

import torch

from trainer.runlog import RunLog

SKIPPED, STEPS, ROWS = 5, 3, 30


class Profile:
    """Watches STEPS steps, once SKIPPED are done; writes `profile-NAME.json` and `.txt`."""

    def __init__(self, folder: Path, name: str, log: RunLog) -> None:
        from torch.profiler import ProfilerActivity, profile, schedule

        self._base, self._log = folder / f"profile-{name.replace(' ', '-')}", log
        kinds = [ProfilerActivity.CPU]
        self._order = "self_cpu_time_total"
        if torch.cuda.is_initialized():
            kinds.append(ProfilerActivity.CUDA)
            self._order = "self_cuda_time_total"
        self._profiler: Any = profile(
            activities=kinds,
            schedule=schedule(wait=SKIPPED - 1, warmup=1, active=STEPS, repeat=1),
            on_trace_ready=self._write,
        )
        self._profiler.start()

    def step(self) -> None:
        """A step is done."""
        self._profiler.step()

    def close(self) -> None:
        """End, though there may have been too few steps."""
        self._profiler.stop()

    def _write(self, profiler: Any) -> None:
        self._base.parent.mkdir(parents=True, exist_ok=True)
        profiler.export_chrome_trace(str(self._base.with_suffix(".json")))
        table = profiler.key_averages().table(sort_by=self._order, row_limit=ROWS)
        self._base.with_suffix(".txt").write_text(table)
        self._log.say(f"profile of {STEPS} steps: {self._base}.json and .txt")
