"""Signatures of CUDA, its libraries, the driver and the card itself."""

from orchestrator.core.detect.signatures.model import Signature, signature

ADVICE = (
    r"^(?:For debugging consider passing|Compile with `TORCH_USE_CUDA_DSA`|CUDA kernel errors might be)",
)

SIGNATURES: tuple[Signature, ...] = (
    signature(
        id="cuda_device_assert",
        title="A GPU kernel's assertion failed",
        cause=(
            "A kernel was given an index or label outside of its range: the first assertion line names"
            " the kernel and the condition. The Python frame is only where it was noticed, and nothing"
            " works on that GPU until the process ends."
        ),
        next_steps=(
            "Read the first `Assertion ... failed` line: srcIndex is an embedding or gather index,"
            " `t >= 0 && t < n_classes` a label.",
            "Run the same batch on the CPU, or with CUDA_LAUNCH_BLOCKING=1, for the true line.",
            "Check token ids against the vocabulary size, and labels against the ignore index.",
        ),
        references=("https://github.com/huggingface/trl/issues/1995",),
        says=(r"device-side assert triggered", r"cudaErrorAssert\b", r"CUDA_ERROR_ASSERT\b"),
        lines=(
            r"\.cuh?:\d+: .{0,400}(?:block: )?\[\d+,\d+,\d+\].{0,80}Assertion ",
            r"Assertion `.{1,300}` failed\.?$",
            r"CUDA error: device-side assert triggered",
        ),
        unless=ADVICE,
    ),
    signature(
        id="gpu_fault",
        title="The GPU or its driver failed",
        cause=(
            "The driver reported a fault of the card or of a kernel on it: ECC, a lost bus, a launch"
            " failure. ECC and a lost bus are hardware; a launch failure or Xid 13, 31, 43 is often a"
            " bug in a kernel."
        ),
        next_steps=(
            "Look up the Xid in the host's kernel log, and the ECC counters of nvidia-smi -q.",
            "ECC or off the bus: take the card out of use, reset it or reboot the host.",
            "Launch failure or Xid 13/31: rerun on another card; if it moves with the job, it is software.",
        ),
        transient=True,
        references=(
            "https://docs.nvidia.com/deploy/xid-errors/",
            "https://github.com/vllm-project/vllm/issues/5222",
        ),
        says=(
            r"uncorrectable (?:NVLink|ECC) error",
            r"[Uu]nspecified launch failure",
            r"launch timed out and was terminated",
            r"CUDA error: unknown error",
            r"CUDA (?:driver )?error: (?:hardware|misaligned address|invalid program counter|(?:an )?illegal instruction)",
            r"CUDA (?:driver )?error: operation not supported on global/shared address space",
            # As CuPy, Numba, JAX and cuda-python name them.
            r"cudaError(?:ECC|Nvlink)Uncorrectable\b",
            r"cudaError(?:LaunchFailure|LaunchTimeout|Contained|Unknown|DevicesUnavailable)\b",
            r"cudaError(?:MisalignedAddress|InvalidAddressSpace|InvalidPc|IllegalInstruction|HardwareStackError)\b",
            r"CUDA_ERROR_(?:ECC|NVLINK)_UNCORRECTABLE\b",
            r"CUDA_ERROR_(?:LAUNCH_FAILED|LAUNCH_TIMEOUT|CONTAINED|UNKNOWN|DEVICE_UNAVAILABLE)\b",
            r"CUDA_ERROR_(?:MISALIGNED_ADDRESS|INVALID_ADDRESS_SPACE|INVALID_PC|ILLEGAL_INSTRUCTION|HARDWARE_STACK_ERROR)\b",
            r"(?:GPU|device) (?:has )?fallen off the bus",
            r"GPU is lost",
            r"[Nn]o CUDA-capable device is detected.{0,80}(?:lost|bus)",
            r"CUDA error: (?:all CUDA-capable devices are|CUDA-capable device\(s\) is/are) busy",
            r"CUDA error: device not ready",
        ),
        lines=(
            r"NVRM: Xid \(",
            r"NVRM: GPU .{0,80}fallen off the bus",
            r"fallen off the bus",
            r"Unable to determine the device handle for GPU.{0,120}(?:GPU is lost|Unknown Error)",
            r"CUDA error: (?:uncorrectable|unspecified launch failure|the launch timed out|unknown error)",
            r"uncorrectable ECC error encountered",
        ),
        unless=(
            r"(?:ECC|Xid)[^\n]{0,40}[:=|]\s*(?:0|N/A|none|None)\b",
            r"\bno (?:Xid|ECC|uncorrectable)",
            r"0 uncorrectable",
            r"uncorrectable (?:ECC|NVLink) errors?:? 0\b",
            r"fallen off the bus\W{1,3}(?:no|none|0|false)\b",
        ),
    ),
    signature(
        id="cuda_illegal_access",
        title="A GPU kernel read or wrote memory that is not its own",
        cause=(
            "A kernel touched an address outside of its tensors: most often a custom or fused kernel, or"
            " a wrong shape or stride given to it. The Python frame is only where it was noticed."
        ),
        next_steps=(
            "Rerun with CUDA_LAUNCH_BLOCKING=1 to learn which call it was.",
            "Run compute-sanitizer on a small case; suspect custom kernels and flash attention first.",
            "See the kernel log for Xid 13 or 31 at the same second.",
        ),
        references=(
            "https://github.com/k2-fsa/icefall/issues/1764",
            "https://github.com/pytorch/pytorch/issues/126544",
        ),
        says=(r"illegal memory access", r"cudaErrorIllegalAddress", r"CUDA_ERROR_ILLEGAL_ADDRESS"),
        lines=(r"CUDA error: an illegal memory access was encountered",),
    ),
    signature(
        id="cublas_cudnn_error",
        title="A CUDA library call failed (cuBLAS, cuDNN, cuSOLVER, cuSPARSE, cuFFT)",
        cause=(
            "A library of CUDA returned an error. NOT_INITIALIZED and ALLOC_FAILED are often memory that"
            " ran out or an earlier fault on the GPU; EXECUTION_FAILED is often an earlier asynchronous"
            " fault or two CUDA versions in one environment."
        ),
        next_steps=(
            "Look above for an assertion or an out-of-memory line: those come first.",
            "Leave some memory free, and try CUDA_LAUNCH_BLOCKING=1.",
            "Check that one set of CUDA libraries is installed (pip list | grep nvidia).",
        ),
        references=("https://github.com/QwenLM/Qwen/issues/120",),
        says=(
            r"CUBLAS_STATUS_\w+",
            r"CUDNN_STATUS_\w+",
            r"CUSOLVER_STATUS_\w+",
            r"CUSPARSE_STATUS_\w+",
            r"CUFFT_\w+",
            r"cuDNN error",
            r"cuDNN Frontend error",
            r"cublas runtime error",
            r"cusolver error",
            r"Unable to find a valid cuDNN algorithm",
            r"unable to find an engine to execute this computation",
        ),
    ),
    signature(
        id="driver_mismatch",
        title="The driver, the CUDA libraries and the card do not fit together",
        cause=(
            "The installed torch needs another driver or GPU than the machine has, or sees none. After a"
            " driver upgrade without a reboot the loaded module and the library differ."
        ),
        next_steps=(
            "Run nvidia-smi on the host and in the container; reboot after a driver upgrade.",
            "Install the torch wheel that fits the driver and the card (torch.cuda.get_arch_list()).",
            "No GPU seen: check that the container was given the devices.",
        ),
        references=("https://github.com/pytorch/pytorch/issues/31285",),
        says=(
            r"Driver/library version mismatch",
            r"Found no NVIDIA driver",
            r"driver on your system is too old",
            r"driver version is insufficient",
            r"no kernel image is available",
            r"Torch not compiled with CUDA enabled",
            r"[Nn]o GPUs? found",
            r"[Nn]o CUDA GPUs are available",
            r"No CUDA-capable device",
            r"no CUDA-capable device is detected",
            r"CUDA unknown error - this may be due to an incorrectly set up environment",
            r"forward compatibility was attempted on non supported",
            r"system not yet initialized",
            r"NVML Shared Library Not Found",
            r"CUDA driver initialization failed",
            r"Unexpected error from cudaGetDeviceCount",
            r"couldn't communicate with the NVIDIA driver",
            r"Attempting to deserialize object on (?:a )?CUDA device",
            r"CUDA error: (?:the provided PTX was compiled with an unsupported toolchain|device kernel image is invalid)",
            r"libcuda\.so(?:\.1)?: cannot open shared object file",
            r"CUDA version.{0,60}mismatch|mismatches the version that was used to compile",
            r"Distributed package doesn't have NCCL built in",
        ),
        lines=(
            r"Failed to initialize NVML: (?:Driver/library version mismatch|Driver Not Loaded)",
        ),
        unless=(r"UserWarning", r"falling back to CPU"),
    ),
)
