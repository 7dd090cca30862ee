"""What a verdict says in words where the signature's own words would claim more than is known.

Owns titles, causes and next steps of ends without an exception. Changes no class and no place.
"""

import re
from dataclasses import replace

from orchestrator.core.findings import MAX_EVIDENCE_LINES, Certainty, Verdict
from orchestrator.core.model import ExitRecord
from orchestrator.core.parse.kernel_log import KernelEvent

NO_COMMAND = {
    126: "A command could not be executed (exit code 126)",
    127: "A command was not found (exit code 127)",
}
"""Exit codes by which a shell says that a command is none; its last line says which."""

_REFUSALS = (
    (
        re.compile(r"python[\d.]*: can't open file "),
        "The program file was not found",
        "Python was told to run a file that is not there; no line of the program ran.",
    ),
    (
        re.compile(r"python[\d.]*: can't find '__main__' module in "),
        "The program has no __main__.py",
        "Python was told to run a folder or an archive that has no __main__.py; nothing ran.",
    ),
)
"""The interpreter's own refusals: how they begin, their title and their cause."""
_NOT_THERE = (
    "Compare the job's `command` with what is in `package`: it runs inside the shipped folder.",
    "`orch deploy --dry-run` lists what is shipped and what is left out.",
)

_MORE_MEMORY = (
    "Give the container more memory, or use less: fewer DataLoader workers, less prefetch, data"
    " that is streamed instead of held.",
    "Where it grew over many steps it is a leak: tensors or batches that something still holds.",
)
"""What is left to do where the kernel's word on an OOM kill is known: nothing to look up."""

_LOOK = "Read the last lines of the log: `orch logs RUN`."


def worded(verdict: Verdict, record: ExitRecord | None, oom: KernelEvent | None) -> Verdict:
    """The verdict, saying no more than its evidence does, and no less than the kernel did."""
    if verdict.signature == "host_oom" and oom is not None:
        return _by_kernel(verdict, oom.text)
    if verdict.signature == "python_error" and verdict.exception is None:
        return _without_exception(verdict, record)
    if verdict.signature == "nan_loss":
        return replace(verdict, title=f"{verdict.title}, and the run stopped itself")
    if verdict.signature == "host_oom" and verdict.certainty is Certainty.GUESS:
        return replace(
            verdict, title="Killed by SIGKILL: most likely for want of memory, or by somebody"
        )
    return verdict


def _by_kernel(verdict: Verdict, told: str) -> Verdict:
    evidence = verdict.evidence
    if told not in evidence:
        evidence = (*evidence[: MAX_EVIDENCE_LINES - 1], told)
    return replace(
        verdict,
        cause=f"The kernel's word: {told.rstrip('.')}.",
        next_steps=_MORE_MEMORY,
        evidence=evidence,
        certainty=Certainty.CERTAIN,
        certainty_reason="",
    )


def _without_exception(verdict: Verdict, record: ExitRecord | None) -> Verdict:
    for begins, title, cause in _REFUSALS:
        if any(begins.search(line) for line in verdict.evidence):
            return replace(verdict, title=title, cause=cause, next_steps=_NOT_THERE)
    code = record.code if record is not None else None
    if verdict.certainty is Certainty.GUESS:
        signal = record.signal if record is not None else None
        how = f"by signal {signal}" if signal is not None else f"with exit code {code}"
        title = NO_COMMAND.get(code or 0, f"The program ended {how} and printed no reason")
        cause = "No exception was printed; the exit code alone says that it failed."
    else:
        title = NO_COMMAND.get(code or 0, "The program gave up with a message")
        cause = (
            "The program ended with a sentence of its own and no traceback: a wrong option, a file"
            " that is not there, or a check of its own."
        )
    if code in NO_COMMAND:
        steps = (
            "Compare the job's `command` with what the target has: `orch exec TARGET -- which ...`.",
            "The command runs inside the shipped folder, with the job's python first in PATH.",
        )
    else:
        steps = (_LOOK, "Run the same command by hand in the run's session: `orch attach RUN`.")
    return replace(verdict, title=title, cause=cause, next_steps=steps)
