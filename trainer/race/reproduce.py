"""The race in seconds on a CPU, without luck: a thread is parked inside a trace.

    python -m trainer.race.reproduce make-fx|compile|stuck [--remedy thread-local-flag]

Thread `tracer` enters a trace and is held there by an operator whose fake implementation
waits; meanwhile thread `caller` calls an unrelated function that was compiled long ago
(`make-fx`, `compile`), or enters the save-and-restore of the flag that an uncompiled
flex_attention call does, and leaves it after the trace has ended (`stuck`). Exit code 3:
the error, or a flag left set, was seen; 0: neither. `compile` shows it in torch 2.11 and
2.12 only, the others up to 2.13.
"""

import argparse
import sys
import threading
from collections.abc import Callable

import torch
import torch.fx._symbolic_trace as symbolic_trace
from torch import Tensor

from trainer.race import flag

DEADLINE_S = 30
FORMS = ("make-fx", "compile", "stuck")
_FORMS_HELP = (
    "make-fx: the trace is make_fx's, the other thread's call fails (torch up to 2.13); "
    "compile: the trace is torch.compile's own (2.11 and 2.12); "
    "stuck: the other thread saves the tracing flag and sets it back after the trace has ended, "
    "so that it stays set and every later compiled call fails (up to 2.13)"
)


class Parked:
    """Where the tracer waits, and what both threads met."""

    def __init__(self) -> None:
        self.inside, self.leave = threading.Event(), threading.Event()
        self.errors: list[str] = []

    def hold(self) -> None:
        """Called in the fake implementation: wait there, in the tracer's thread only.

        dynamo calls it once before FX traces; only the call inside the trace counts.
        """
        tracing = vars(symbolic_trace).get(flag.FLAG, True)
        mine = threading.current_thread().name == "tracer"
        if mine and tracing and not self.inside.is_set():
            self.inside.set()
            self.leave.wait(DEADLINE_S)

    def attempt(self, act: Callable[[], object]) -> None:
        """Run `act`, keeping its error; the tracer may go on afterwards."""
        try:
            act()
        except Exception as error:  # noqa: BLE001  # whatever it is, it is the finding
            self.errors.append(f"{threading.current_thread().name}: {error!r}"[:300])


def reproduce(form: str) -> list[str]:
    """Run the two threads; returns what went wrong, nothing if all is well."""
    parked = Parked()

    @torch.library.custom_op("race::parking", mutates_args=())
    def parking(x: Tensor) -> Tensor:
        return x.sin()

    @parking.register_fake
    def _(x: Tensor) -> Tensor:
        parked.hold()
        return torch.empty_like(x)

    compiled = torch.compile(lambda x: x * 2, backend="aot_eager")
    compiled(torch.ones(3))

    def trace() -> object:
        if form == "compile":
            return torch.compile(lambda x: parking(x).sum(), backend="aot_eager")(torch.ones(8))
        from torch.fx.experimental.proxy_tensor import make_fx

        return make_fx(lambda x: parking(x).sum(), tracing_mode="fake")(torch.ones(8))

    tracer = threading.Thread(target=parked.attempt, args=(trace,), name="tracer")

    def call() -> None:
        if form == "stuck":
            from torch._higher_order_ops.utils import _set_compilation_env

            with _set_compilation_env():
                parked.leave.set()
                tracer.join()
        compiled(torch.ones(3))

    caller = threading.Thread(target=parked.attempt, args=(call,), name="caller")
    tracer.start()
    if not parked.inside.wait(DEADLINE_S):
        parked.errors.append("the tracer never came to the operator")
    caller.start()
    caller.join()
    parked.leave.set()
    tracer.join()
    if flag.flag_stuck():
        parked.errors.append("the flag is left set: every later compiled call fails")
    return parked.errors


def main() -> int:
    """Parse the command line and reproduce one form."""
    parser = argparse.ArgumentParser(
        prog="python -m trainer.race.reproduce",
        description="Reproduce the FX-tracing race on a CPU: one thread is held inside a trace "
        "while another calls a function that was compiled long ago.",
        epilog="exit code 3: the error, or a flag left set, was seen; 0: neither",
    )
    parser.add_argument("form", choices=FORMS, metavar="FORM", help=_FORMS_HELP)
    parser.add_argument(
        "--remedy",
        choices=("none", "thread-local-flag"),
        default="none",
        help="thread-local-flag: make torch's tracing flag one of each thread first (none)",
    )
    chosen = parser.parse_args()
    if chosen.remedy != "none":
        print(f"patched: {flag.install()}")
    errors = reproduce(chosen.form)
    print(f"torch {torch.__version__} {chosen.form}: {errors or 'no error'}")
    return 3 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
