"""The known failures, most telling first, and the reading of a user's own rules."""

from orchestrator.core.detect.signatures import (
    compiling,
    distributed,
    environment,
    gpu,
    memory,
    ordinary,
)
from orchestrator.core.detect.signatures.model import Expectation, Signature, signature
from orchestrator.core.detect.signatures.rules import parse_rule
from orchestrator.core.findings import Finding

__all__ = ["Expectation", "Signature", "load", "meant", "parse_rule", "signature"]

_ORDER = [
    "fx_trace_nested",
    "fx_trace_race",
    "cuda_oom",
    "triton_error",
    "silent_eager",
    "dynamo_compile_error",
    "cuda_device_assert",
    "cuda_illegal_access",
    "gpu_fault",
    "shm_exhausted",
    "disk_full",
    "host_oom",
    "driver_mismatch",
    "nccl_timeout",
    "cublas_cudnn_error",
    "rendezvous_or_port",
    "nccl_error",
    "import_error",
    "checkpoint_corrupt",
    "hub_or_dataset_error",
    "nan_loss",
    "segfault",
    "interrupted",
    "elastic_child_failed",
    "python_error",
]


def load() -> tuple[Signature, ...]:
    """All built-in signatures; where two match, the earlier one is meant."""
    modules = (compiling, memory, gpu, distributed, environment, ordinary)
    known = [item for module in modules for item in module.SIGNATURES]
    return tuple(sorted(known, key=lambda item: _ORDER.index(item.id)))


def meant(finding: Finding, known: tuple[Signature, ...]) -> Signature | None:
    """The signature of a finding; some share an id: the one with its title, else the first."""
    named = [one for one in known if one.id == finding.signature]
    return next((one for one in named if one.title == finding.title), next(iter(named), None))
