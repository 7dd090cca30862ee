"""Which failures of an action are waited out, since it can be done later.

Must not: do one, or wait.
"""

from orchestrator.core.decide.decision import Action, ActionKind
from orchestrator.core.errors import (
    AuthRefused,
    HostKeyRefused,
    NotDriven,
    OrchError,
    Unreachable,
)
from orchestrator.core.model import Run
from orchestrator.link.calls import CallFailed

FENCED = "Fenced"
"""The probe's word: a daemon with a newer lease has been there."""


def is_to_wait(action: Action, error: OrchError, run: Run) -> bool:
    """Whether an action is tried again: what ends a run also where we are not let in."""
    ended = run.state.ended
    if action.kind is ActionKind.COLLECT_EVIDENCE and ended:
        return False  # nothing waits for it, and later the target says something else
    if isinstance(error, HostKeyRefused | AuthRefused):
        return action.kind is ActionKind.STOP or (action.kind is ActionKind.END_REMAINS and ended)
    if isinstance(error, CallFailed) and error.error_type == FENCED:
        return True
    # What another daemon drives now is its to do: `let_go` ends the waiting.
    return isinstance(error, Unreachable | NotDriven)
