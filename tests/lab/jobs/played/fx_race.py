"""What training prints until a thread dies of the FX-tracing race, as PyTorch 2.11 does."""

import sys
import time

SITE = "/usr/local/lib/python3.12/dist-packages"
TRACEBACK = f"""\
Exception in thread Thread-3 (run):
Traceback (most recent call last):
  File "/usr/lib/python3.12/threading.py", line 1073, in _bootstrap_inner
    self.run()
  File "/usr/lib/python3.12/threading.py", line 1010, in run
    self._target(*self._args, **self._kwargs)
  File "/srv/orch/dflash/current/trainer/drafter_worker.py", line 212, in run
    loss = self.step(batch)
           ^^^^^^^^^^^^^^^^
  File "/srv/orch/dflash/current/trainer/drafter_worker.py", line 171, in step
    loss, accuracy = self.drafter(hidden_states, anchors, block_mask)
                     ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "{SITE}/torch/nn/modules/module.py", line 1776, in _wrapped_call_impl
    return self._call_impl(*args, **kwargs)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "{SITE}/torch/nn/modules/module.py", line 1787, in _call_impl
    return forward_call(*args, **kwargs)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/orch/dflash/current/trainer/dflash_model.py", line 348, in forward
    hidden = checkpoint(layer, hidden, context, block_mask, use_reentrant=True)
             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "{SITE}/torch/_compile.py", line 54, in inner
    return disable_fn(*args, **kwargs)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "{SITE}/torch/_dynamo/eval_frame.py", line 1181, in _fn
    return fn(*args, **kwargs)
           ^^^^^^^^^^^^^^^^^^^
  File "{SITE}/torch/utils/checkpoint.py", line 495, in checkpoint
    return CheckpointFunction.apply(function, preserve, *args)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "{SITE}/torch/autograd/function.py", line 583, in apply
    return super().apply(*args, **kwargs)  # type: ignore[misc]
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "{SITE}/torch/utils/checkpoint.py", line 263, in forward
    outputs = run_function(*args)
              ^^^^^^^^^^^^^^^^^^^
  File "{SITE}/torch/nn/modules/module.py", line 1776, in _wrapped_call_impl
    return self._call_impl(*args, **kwargs)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "{SITE}/torch/nn/modules/module.py", line 1787, in _call_impl
    return forward_call(*args, **kwargs)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/srv/orch/dflash/current/trainer/dflash_model.py", line 204, in forward
    attended = compiled_flex_attention(query, key, value, block_mask=block_mask)
               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "{SITE}/torch/_dynamo/eval_frame.py", line 953, in compile_wrapper
    raise RuntimeError(
RuntimeError: Detected that you are using FX to symbolically trace a dynamo-optimized function. \
This is not supported at the moment.
"""


def say(line: str) -> None:
    """Print LINE at once."""
    print(line, flush=True)


def train(first: int, count: int, pause_s: float) -> None:
    """COUNT lines of training from step FIRST on, PAUSE_S apart."""
    for step in range(first, first + count):
        loss = 9.4 / (1 + step / 60) + 0.01 * (step % 7)
        say(
            f"[drafter {step % 3}] step {step:6d} | loss {loss:.4f} | acc {1 - loss / 10:.3f} | "
            f"lr 6.0e-04 | 41872 tok/s | mem 61.2 GiB"
        )
        if pause_s:
            time.sleep(pause_s)


def thread_dies(stamp: str) -> None:
    """Print the traceback as the threading module does; keep the time of its last byte in STAMP."""
    sys.stderr.write(TRACEBACK)
    sys.stderr.flush()
    if stamp:
        with open(stamp, "w") as kept:
            kept.write(f"{time.time():.6f}\n")


def start(lines: int, pause_s: float) -> None:
    """The head of such a log, LINES of training included."""
    say("torch 2.11.0+cu130 | 8 x H200 | 5 target GPUs + 3 drafter GPUs | threads: 3")
    say("W1129 02:14:07.118000 4711 torch/_dynamo/convert_frame.py:1358] compiling flex_attention")
    train(1, lines, pause_s)
