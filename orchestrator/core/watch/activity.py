"""The second witness of a hang: what a run did while it was silent, and what that says.

Owns the thresholds. How it is looked up is the caller's, what follows vigil.py's.
"""

import re
from dataclasses import dataclass

IDLE_CORES = 0.05
IDLE_GPU_PERCENT = 5.0
BUSY_GPU_PERCENT = 95.0
BUSY_WATTS_PART = 0.45
"""A collective that waits shows 100 % at less than half of the power that work takes."""
_COMPILERS = re.compile(r"_inductor[/.]compile_worker|\bptxas\b|\bcc1plus\b|\bnvcc\b|\bcicc\b")
_VOLATILE = re.compile(r"^(?:Process|Python v).*$|\((?:active|idle)[^)]*\)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """The second witness: what the run did while it was silent."""

    cpu_cores: float
    """CPU seconds per second, of all its processes."""
    gpu_percents: tuple[float, ...] = ()
    """Of its target's GPUs; empty where they are not seen."""
    power_parts: tuple[float, ...] = ()
    """Power drawn of what each may draw."""
    commands: tuple[str, ...] = ()
    stacks: tuple[str, ...] = ()
    """Of each Python process; empty where nobody could look."""
    later_stacks: tuple[str, ...] = ()
    """The same some seconds later."""

    @property
    def compiling(self) -> bool:
        """Whether compilers of the run work: a phase, and no hang."""
        return self.cpu_cores > IDLE_CORES and any(_COMPILERS.search(one) for one in self.commands)

    @property
    def idle(self) -> bool:
        """Whether neither CPU nor GPU is used."""
        return self.cpu_cores <= IDLE_CORES and all(
            one < IDLE_GPU_PERCENT for one in self.gpu_percents
        )

    @property
    def waits_on_gpus(self) -> bool:
        """Whether every GPU spins without working, as in a collective that lacks a rank."""
        spinning = bool(self.gpu_percents) and min(self.gpu_percents) >= BUSY_GPU_PERCENT
        return spinning and bool(self.power_parts) and max(self.power_parts) < BUSY_WATTS_PART

    @property
    def stands_still(self) -> bool:
        """Whether every stack is where it was while every GPU spins.

        Without the GPUs it says nothing: a loop over data stands on one line for minutes, too.
        """
        spinning = bool(self.gpu_percents) and min(self.gpu_percents) >= BUSY_GPU_PERCENT
        return (
            spinning
            and bool(self.stacks)
            and [still(one) for one in self.stacks] == [still(one) for one in self.later_stacks]
        )


def still(stack: str) -> str:
    """A dump of stacks without what differs though nothing moved."""
    return _VOLATILE.sub("", stack).strip()


def said(activity: Activity) -> str:
    """What was done meanwhile, in a few words."""
    words = [f"{activity.cpu_cores:.2f} CPU cores used"]
    if activity.gpu_percents:
        words.append(f"GPUs at {max(activity.gpu_percents):.0f} % or less")
    if activity.waits_on_gpus:
        words.append("at the power of waiting")
    if activity.stands_still:
        words.append("every stack stands still")
    if activity.compiling:
        words.append("compilers at work")
    return ", ".join(words)
