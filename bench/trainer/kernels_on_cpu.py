"""Check the Triton kernels against plain torch in Triton's interpreter, without a GPU.

    TRITON_INTERPRET=1 python -m bench.trainer.kernels_on_cpu

Needs the triton package, which torch for CPU does not bring. Prints the largest
differences; fails where one is above what float32 and bfloat16 explain.
"""

import os
import sys

import torch


def head() -> None:
    """Loss and slope of the head, with ties, a vocabulary that fills no block, and -inf."""
    from trainer import head_kernel
    from trainer.headloss import _slope, _statistics

    torch.manual_seed(1)
    for dtype in (torch.bfloat16, torch.float32):
        for vocab in (100, 4096, 9001):
            logits = (torch.randn(5, vocab) * 4).to(dtype)
            logits[1] = logits[1].round()  # ties
            logits[2, 7] = -float("inf")
            label = torch.tensor([3, int(logits[1].float().argmax()), 9, vocab - 1, 0])
            weight = torch.rand(5)
            wanted = _statistics(logits, label)
            got = head_kernel.statistics(logits, label)
            torch.testing.assert_close(got[0], wanted[0], rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(got[1], wanted[1], rtol=1e-5, atol=1e-5)
            assert got[2].tolist() == wanted[2].tolist(), (got[2], wanted[2])
            plain = _slope(logits, wanted[0], label, weight)
            slope = head_kernel.slope(logits, wanted[0], label, weight)
            assert slope.data_ptr() == logits.data_ptr()
            torch.testing.assert_close(slope, plain, rtol=1e-2, atol=1e-6)
            print(f"head {dtype} {vocab}: {float((slope.float() - plain.float()).abs().max()):.2e}")


def optimizer() -> None:
    """One update of AdamW."""
    from trainer.adamw_kernel import update
    from trainer.optim import _update

    torch.manual_seed(2)
    start = torch.randn(3000)
    states = []
    for rule in (_update, update):
        weight, master = start.to(torch.bfloat16), start.clone()
        first, second = torch.zeros_like(start), torch.zeros_like(start)
        grad = torch.randn(3000, generator=torch.Generator().manual_seed(3)).to(torch.bfloat16)
        for _ in range(3):
            rule(
                weight, grad, master, first, second, torch.tensor(0.5), step_size=1e-2,
                beta1=0.9, beta2=0.95, eps=1e-8, keep=0.999, correction2=0.1,
            )  # fmt: skip
        states.append((weight, master, first, second))
    for plain, kernel in zip(*states, strict=True):
        torch.testing.assert_close(kernel, plain, rtol=1e-2, atol=1e-5)
    print("optimizer: equal")


def feed_forward() -> None:
    """SwiGLU and its slopes, with a width that fills no block."""
    from trainer import feedforward, swiglu_kernel

    torch.manual_seed(3)
    for dtype in (torch.bfloat16, torch.float32):
        both, grad = torch.randn(3, 2 * 2500).to(dtype), torch.randn(3, 2500).to(dtype)
        torch.testing.assert_close(
            swiglu_kernel.activated(both), feedforward._activated(both), rtol=2e-2, atol=1e-2
        )
        wanted = feedforward._slopes(both.float(), grad.float())
        got = swiglu_kernel.slopes(both.clone(), grad.clone())
        for kernel, plain in zip(got, wanted, strict=True):
            torch.testing.assert_close(kernel.float(), plain, rtol=1e-2, atol=1e-5)
        print(f"feed-forward {dtype}: equal")


if __name__ == "__main__":
    if os.environ.get("TRITON_INTERPRET") != "1":
        sys.exit("set TRITON_INTERPRET=1")
    head()
    optimizer()
    feed_forward()
