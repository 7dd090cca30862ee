"""What the findings of the watch mean and what to do next, as signatures beside the log's own."""

from functools import cache

from orchestrator.core.detect.signatures import Signature, load
from orchestrator.core.detect.signatures.model import signature
from orchestrator.core.model import Severity

HANG = "hang"
BLIND = "blind"
EXPECTATION_FAILED = "expectation_failed"
THROUGHPUT_DROP = "throughput_drop"
NAN_LOSS = "nan_loss"
STRAGGLER = "straggler"
OUTPUT_LOST = "output_lost"

WATCHED: tuple[Signature, ...] = (
    signature(
        id=HANG,
        title="The run hangs",
        cause=(
            "Nothing is printed any more, and a second witness says the same: no CPU and GPU time"
            " is used, or every stack stands still. The process lives, and waits for something"
            " that does not come: a lock, a rank that has gone, a card, a file system."
        ),
        next_steps=(
            "Read the stacks kept with the incident: the frame in which each rank waits.",
            "Ranks in a collective while one is elsewhere: that one is the cause.",
            "State D or a wchan of nfs or fuse: look at the storage, not at the code.",
        ),
        transient=None,
    ),
    signature(
        id=BLIND,
        title="The target has not been seen for a while",
        cause=(
            "The link to the target is down, so that nobody knows how the run does. It may well go"
            " on: not seeing says nothing about it."
        ),
        next_steps=(
            "`orch doctor` says what is wrong with the link.",
            "Nothing needs to be restarted: what was printed meanwhile is read as soon as the link"
            " is back.",
        ),
        severity=Severity.WARNING,
        transient=True,
    ),
    signature(
        id=EXPECTATION_FAILED,
        title="The run is not as expected",
        cause="A rule under `watch` of the job does not hold: see which in the evidence.",
        next_steps=(
            "Compare with the last good run: `orch diff RUN`.",
            "If the rule is too strict, change it in the inventory.",
        ),
    ),
    signature(
        id=THROUGHPUT_DROP,
        title="The run has become slower, and stays so",
        cause=(
            "Steps take much longer than right before, the quick ones too, and stay so: a card that"
            " throttles, a loader that starves, a neighbour on the same host, recompiling."
        ),
        next_steps=(
            "`orch top`: clocks, temperature and who else uses the GPUs.",
            "Look for recompiles in the log, and at the loader's and the disk's load.",
        ),
        severity=Severity.WARNING,
        transient=True,
    ),
    signature(
        id=NAN_LOSS,
        title="The loss is no number any more",
        cause=(
            "The loss was NaN or infinite several steps in a row, and the run goes on: from here on"
            " every weight is lost, and the time with it."
        ),
        next_steps=(
            "Stop it, and go back to the last checkpoint before the step named in the evidence.",
            "Look at that step's batch, learning rate and gradient norm; clip, warm up longer.",
        ),
        transient=None,
    ),
    signature(
        id=STRAGGLER,
        title="One GPU holds the others up",
        cause=(
            "Ranks that train together go at the pace of the slowest. One of them comes late, while"
            " the others wait in a collective and look busy."
        ),
        next_steps=(
            "Late: look at what feeds its rank: its loader, its CPU cores, its part of the data.",
            "Slow clocks: `nvidia-smi -q -d PERFORMANCE,TEMPERATURE` says why; cooling, power, or a"
            " limit that somebody has set.",
        ),
        severity=Severity.WARNING,
        transient=True,
    ),
    signature(
        id=OUTPUT_LOST,
        title="Output is lost: the disk of the target is full",
        cause=(
            "The file of the run's output could take no more. The run goes on; of what it printed"
            " meanwhile nothing can be found any more, no crash either, and its next checkpoint may"
            " not fit."
        ),
        next_steps=(
            "Free space there before the next checkpoint: `orch exec TARGET -- df -h`.",
            "`orch show RUN` says how much is lost by now.",
        ),
        severity=Severity.WARNING,
        transient=None,
    ),
)


@cache
def of(ident: str) -> Signature:
    """The signature of a finding, of the watch or of the log's that time shows too; KeyError."""
    return {one.id: one for one in (*load(), *WATCHED)}[ident]
