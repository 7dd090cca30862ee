"""Ends as a kernel that reads past its memory ends a program."""

import sys

print(
    "Traceback (most recent call last):\n"
    '  File "train.py", line 12, in <module>\n'
    "    loss.backward()\n"
    "torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n"
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace "
    "below might be incorrect.",
    flush=True,
)
sys.exit(1)
