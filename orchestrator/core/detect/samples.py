"""Output that is of a built-in signature, and output that only looks like it.

Owns the texts. `orch rules test` and the tests read them; `orch simulate` plays a positive one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Logs of a few lines, each on its own."""

    positive: tuple[str, ...] = ()
    """The signature must be found in each."""
    negative: tuple[str, ...] = ()
    """It must be found in none."""


_STEPS = "step 118 loss 2.3012\nstep 119 loss 2.2987\n"
_AFTER = "step 120 loss 2.2961\nstep 121 loss 2.2950\ntraining finished\n"
_MAIN = '  File "/srv/app/train.py", line 212, in <module>\n    main()\n'
_STEP = '  File "/srv/app/train.py", line 88, in step\n    loss = model(batch)\n'
_HEAD = "Traceback (most recent call last):\n"


def _dies(error: str, frames: str = _STEP) -> str:
    """A program that trains and dies of an exception nothing caught."""
    return f"{_STEPS}{_HEAD}{_MAIN}{frames}{error}\n"


def _ends(lines: str) -> str:
    """A program that trains and whose last lines are these."""
    return f"{_STEPS}{lines}\n"


def _goes_on(lines: str) -> str:
    """A program that says this, and trains on to its end."""
    return f"{_STEPS}{lines}\n{_AFTER}"


_FX = (
    "RuntimeError: Detected that you are using FX to symbolically trace a dynamo-optimized"
    " function. This is not supported at the moment."
)
_FX_THREAD = (
    f"{_STEPS}Exception in thread Thread-3 (draft):\n{_HEAD}"
    '  File "/usr/lib/python3.11/threading.py", line 1045, in _bootstrap_inner\n    self.run()\n'
    '  File "/srv/app/drafter.py", line 61, in draft\n    hidden = self.model(tokens)\n'
    '  File "/srv/env/lib/torch/_dynamo/eval_frame.py", line 749, in compile_wrapper'
    f"\n    raise RuntimeError(\n{_FX}\n"
)
_FX_NESTED = (
    '  File "/srv/app/export.py", line 14, in export\n    graph = symbolic_trace(model)\n'
    '  File "/srv/env/lib/torch/fx/_symbolic_trace.py", line 1314, in symbolic_trace'
    "\n    graph = tracer.trace(root, concrete_args)\n"
    '  File "/srv/env/lib/torch/_dynamo/eval_frame.py", line 749, in compile_wrapper'
    "\n    raise RuntimeError(\n"
)
_OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total"
    " capacity of 79.11 GiB of which 1.10 GiB is free."
)
_CAUGHT = _goes_on(f"WARNING skipped a batch: {_OOM}")
_LOAD = (
    '  File "/srv/app/train.py", line 40, in load_checkpoint\n    state = torch.load(path)\n'
    '  File "/srv/env/lib/torch/serialization.py", line 1495, in load\n'
    "    with _open_zipfile_reader(file) as reader:\n"
)
_WATCHDOG = (
    "[rank1]:[E1102 10:00:00.123456789 ProcessGroupNCCL.cpp:629] [Rank 1] Watchdog caught"
    " collective operation timeout: WorkNCCL(SeqNum=41, OpType=ALLREDUCE, Timeout(ms)=600000)"
    " ran for 600021 milliseconds before timing out."
)
_NCCL = (
    "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3356, unhandled system"
    " error (run with NCCL_DEBUG=INFO for details), NCCL version 2.21.5"
)
_ELASTIC = (
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
    "============================================================\n"
    "train.py FAILED\n"
    "------------------------------------------------------------\n"
    "Root Cause (first observed failure):\n[0]:\n"
    "  time      : 2026-01-01_00:00:00\n  host      : box\n  rank      : 1 (local_rank: 1)\n"
    "  exitcode  : 1 (pid: 4242)\n  error_file: <N/A>\n"
    "  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html\n"
    "============================================================"
)
_TORCHRUN = '  File "/srv/env/lib/torch/distributed/run.py", line 901, in main\n    run(args)\n'

SAMPLES: Mapping[str, Samples] = MappingProxyType(
    {
        "fx_trace_race": Samples(
            positive=(_FX_THREAD, _dies(_FX)),
            negative=(
                _dies(_FX, _FX_NESTED),
                _goes_on("tip: do not use FX to symbolically trace a compiled module"),
            ),
        ),
        "fx_trace_nested": Samples(positive=(_dies(_FX, _FX_NESTED),), negative=(_FX_THREAD,)),
        "dynamo_compile_error": Samples(
            positive=(
                _dies(
                    "torch._dynamo.exc.Unsupported: call_function BuiltinVariable(print) [] {}\n\n"
                    'from user code:\n   File "/srv/app/model.py", line 12, in forward\n'
                    "    print(x)\n\nSet TORCHDYNAMO_VERBOSE=1 for the internal stack trace"
                ),
            ),
            negative=(_goes_on("torch._dynamo hit config.recompile_limit (8)"), _dies(_OOM)),
        ),
        "silent_eager": Samples(
            positive=(_goes_on("torch._dynamo hit config.recompile_limit (8)"),),
            negative=(_goes_on("compiling 3 graphs, recompile_limit is 64"),),
        ),
        "triton_error": Samples(
            positive=(
                _dies(
                    "triton.runtime.errors.OutOfResources: out of resource: shared memory,"
                    " Required: 262144, Hardware limit: 232448. Reducing block sizes or"
                    " `num_stages` may help."
                ),
            ),
            negative=(_goes_on("AUTOTUNE mm(512x512, 512x512)\n  triton_mm_4 0.0123 ms 100.0%"),),
        ),
        "cuda_oom": Samples(
            positive=(_dies(_OOM),),
            negative=(_goes_on("peak memory 70.1 GiB of 79.1 GiB, no out of memory so far"),),
        ),
        "shm_exhausted": Samples(
            positive=(
                _dies(
                    "RuntimeError: unable to allocate shared memory(shm) for file"
                    " </torch_4242_1>: No space left on device (28)"
                ),
            ),
            negative=(_dies("OSError: [Errno 28] No space left on device"),),
        ),
        "host_oom": Samples(
            positive=(
                _ends("Killed"),
                _dies("RuntimeError: DataLoader worker (pid 77) is killed by signal: Killed."),
            ),
            negative=(_goes_on("Killed old workers of the last epoch"), _dies(_OOM)),
        ),
        "cuda_device_assert": Samples(
            positive=(
                _dies(
                    "../aten/src/ATen/native/cuda/Indexing.cu:1290: indexSelectLargeIndex: block:"
                    " [0,0,0], thread: [0,0,0] Assertion `srcIndex < srcSelectDimSize` failed.\n"
                    "RuntimeError: CUDA error: device-side assert triggered"
                ),
            ),
            negative=(_dies("AssertionError: srcIndex < srcSelectDimSize"),),
        ),
        "cuda_illegal_access": Samples(
            positive=(_dies("RuntimeError: CUDA error: an illegal memory access was encountered"),),
            negative=(_dies("RuntimeError: CUDA error: device-side assert triggered"),),
        ),
        "gpu_fault": Samples(
            positive=(
                _dies("RuntimeError: CUDA error: uncorrectable ECC error encountered"),
                _dies("RuntimeError: CUDA error: unspecified launch failure"),
            ),
            negative=(_goes_on("gpu 0: uncorrectable ECC errors: 0, Xid: none"),),
        ),
        "cublas_cudnn_error": Samples(
            positive=(
                _dies(
                    "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling"
                    " `cublasSgemm( handle, opa, opb, m, n, k, &alpha, a, lda, b, ldb, &beta, c,"
                    " ldc)`"
                ),
            ),
            negative=(_goes_on("cuDNN 9.1.0 is used, benchmark mode on"),),
        ),
        "driver_mismatch": Samples(
            positive=(
                _dies(
                    "RuntimeError: Found no NVIDIA driver on your system. Please check that you"
                    " have an NVIDIA GPU and installed a driver from http://www.nvidia.com"
                ),
            ),
            negative=(_goes_on("driver 570.86.15, CUDA 12.8"),),
        ),
        "nccl_timeout": Samples(
            positive=(_ends(_WATCHDOG),),
            negative=(_goes_on("NCCL timeout is 600 s (TORCH_NCCL_ASYNC_ERROR_HANDLING=1)"),),
        ),
        "nccl_error": Samples(
            positive=(_dies(_NCCL),),
            negative=(_goes_on("box:42:42 [0] NCCL INFO Connected all rings"),),
        ),
        "rendezvous_or_port": Samples(
            positive=(
                _dies(
                    "torch.distributed.DistNetworkError: The server socket has failed to listen on"
                    " any local network address. port: 29500, useIpv6: false, code: -98, name:"
                    " EADDRINUSE, message: address already in use"
                ),
            ),
            negative=(_goes_on("rendezvous at 127.0.0.1:29500: 8 of 8 joined"),),
        ),
        "elastic_child_failed": Samples(
            positive=(_dies(_ELASTIC, _TORCHRUN),),
            negative=(_goes_on("all 8 workers exited (exitcode: 0)"),),
        ),
        "import_error": Samples(
            positive=(_dies("ModuleNotFoundError: No module named 'flash_attn'"),),
            negative=(_goes_on("flash_attn is not installed, using scaled dot products"),),
        ),
        "disk_full": Samples(
            positive=(_dies("OSError: [Errno 28] No space left on device: 'ckpt/step_120.pt'"),),
            negative=(_goes_on("49.2 GiB left on the device of ckpt"),),
        ),
        "checkpoint_corrupt": Samples(
            positive=(
                _dies(
                    "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding"
                    " central directory",
                    _LOAD,
                ),
                _dies("EOFError", _LOAD),
            ),
            negative=(_dies("EOFError"), _goes_on("checkpoint step_100.pt verified")),
        ),
        "hub_or_dataset_error": Samples(
            positive=(
                _dies(
                    "huggingface_hub.errors.RepositoryNotFoundError: 401 Client Error. (Request ID:"
                    " Root=1-66)\n\nRepository Not Found for url:"
                    " https://huggingface.co/api/models/none/none."
                ),
            ),
            negative=(_goes_on("dataset: 128 shards, all there"),),
        ),
        "nan_loss": Samples(
            positive=(_dies("FloatingPointError: loss is nan at step 120"),),
            negative=(_goes_on("check for nan: none found in loss or gradients"), _dies(_OOM)),
        ),
        "segfault": Samples(
            positive=(
                _ends(
                    "Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f0a1b2c3d40"
                    ' (most recent call first):\n  File "/srv/app/train.py", line 88 in step\n'
                    '  File "/srv/app/train.py", line 212 in <module>\nSegmentation fault'
                    " (core dumped)"
                ),
            ),
            negative=(_goes_on("faulthandler is on: a segmentation fault prints its stack"),),
        ),
        "interrupted": Samples(
            positive=(_dies("KeyboardInterrupt"),),
            negative=(_goes_on("press Ctrl-C to stop; SIGTERM saves a checkpoint"),),
        ),
        "python_error": Samples(
            positive=(_dies("ValueError: expected 8 heads, got 7"),),
            negative=(_CAUGHT, _goes_on("ValueError is raised where heads differ")),
        ),
    }
)
