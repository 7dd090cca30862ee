"""Of which ends the target is asked what it says of itself, although nothing is started again.

Owns the list of signatures that concern a GPU. Must not: ask anybody.
"""

from orchestrator.core.findings import Verdict

ABOUT_GPUS = frozenset(
    {
        *("cuda_oom", "cuda_illegal_access", "cuda_device_assert", "cublas_cudnn_error"),
        *("gpu_fault", "driver_mismatch", "nccl_error", "nccl_timeout"),
    }
)
"""What `nvidia-smi -q` says right after one of these is gone with the next reset."""


def concerns_gpus(verdict: Verdict) -> bool:
    """Whether a crash, or a part of what was seen of it, is about a GPU or what goes between."""
    seen = {verdict.signature, *(one.signature for one in verdict.findings)}
    return verdict.crash and not seen.isdisjoint(ABOUT_GPUS)
