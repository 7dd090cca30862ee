"""Signatures of memory that ran out: on the GPU, on the host, in /dev/shm."""

from orchestrator.core.detect.exit_codes import LEFT_WITH
from orchestrator.core.detect.signatures.model import Signature, signature

SIGNATURES: tuple[Signature, ...] = (
    signature(
        id="cuda_oom",
        title="GPU out of memory",
        cause=(
            "An allocation did not fit into the GPU's memory. The numbers in the message tell which:"
            " allocated near capacity is a batch too large, much reserved but unallocated is"
            " fragmentation, little of our own with little free is another program on the card."
        ),
        next_steps=(
            "Compare the numbers of the message with the last good run's peak memory.",
            "Batch too large: smaller micro-batch, activation checkpointing, shorter context.",
            "Fragmentation: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.",
            "Another program: see who holds the GPU (`orch top`), and end what was left over.",
        ),
        references=("https://pytorch.org/docs/stable/notes/cuda.html#memory-management",),
        types=(r"OutOfMemoryError",),
        says=(
            r"CUDA out of memory",
            r"CUDA error: out of memory",
            r"HIP out of memory",
            r"[Cc][Uu][Dd][Aa] failure(?: \d+)?:? '?out of memory",
            r"CUDA_ERROR_OUT_OF_MEMORY",
            r"cudaErrorMemoryAllocation",
            r"CUDA driver error: out of memory",
            r"Tried to allocate [\d.]+ [KMGT]iB.{0,80}GPU",
            r"RESOURCE_EXHAUSTED: Out of memory",
        ),
        lines=(r"^(?:\w+\.)*OutOfMemoryError: ", r"^what\(\):\s+CUDA out of memory"),
        unless=(r"^ray\.exceptions\.", r"node running low on memory"),
    ),
    signature(
        id="shm_exhausted",
        title="Shared memory or file handles ran out",
        cause=(
            "Worker processes pass tensors through /dev/shm or open files, and one of the two ran out."
            " In a container /dev/shm is often only 64 MiB."
        ),
        next_steps=(
            "Give the container a larger /dev/shm (lxc.mount.entry tmpfs size=, docker --shm-size).",
            "Fewer or smaller worker batches; torch.multiprocessing.set_sharing_strategy('file_system').",
            "Too many open files: ulimit -n.",
        ),
        references=(
            "https://github.com/pytorch/pytorch/issues/5040",
            "https://github.com/pytorch/pytorch/issues/108861",
        ),
        says=(
            r"unable to (?:allocate|open|write|resize|mmap) (?:the )?shared memory",
            r"unable to mmap \d+ bytes from file </torch_",
            r"</torch_\S*>: (?:No space left|Cannot allocate)",
            r"killed by signal: Bus error",
            r"insufficient shared memory",
            r"out of shared memory\. Please try to raise",
            r"No space left on device.{0,80}/dev/shm",
            r"/dev/shm.{0,200}No space left on device",
            r"Too many open files",
            r"received 0 items of ancdata",
            r"Error while creating shared memory segment /dev/shm/nccl",
        ),
        lines=(r"Unexpected bus error encountered in worker",),
    ),
    signature(
        id="host_oom",
        title="Host out of memory: a process was killed or could not allocate",
        cause=(
            "The machine or the container ran out of main memory, and the kernel ended a process with"
            " SIGKILL. A SIGKILL alone does not prove it: a person or a scheduler can send it too."
        ),
        next_steps=(
            "Look for an oom-kill line (`orch explain RUN` has it where the host's kernel log is seen),"
            " or in the cgroup's memory.events.",
            "Fewer DataLoader workers, less prefetch, stream the data instead of holding it.",
            "If no OOM is found: ask who sent kill -9.",
        ),
        references=("https://github.com/pytorch/pytorch/issues/8976",),
        types=(r"_ArrayMemoryError", r"MemoryError", r"ray\.exceptions\.OutOfMemoryError"),
        says=(
            r"DefaultCPUAllocator: (?:can't|not enough)",
            r"[Cc]annot allocate memory",
            r"killed by signal: Killed",
            r"terminated with signal SIGKILL",
            r"Unable to allocate [\d.]+ [KMGTP]iB for an array",
            r"std::bad_alloc",
            r"died with <Signals\.SIGKILL",
            r"DataLoader worker \(pid(?:\(s\))? [\d, ]+\) exited unexpectedly",
            r"Signal 9 \(SIGKILL\) received",
        ),
        lines=(
            r"Out of memory: Killed process \d+",
            r"Memory cgroup out of memory: Kill(?:ed)? process",
            r"oom-kill:constraint=",
            r"invoked oom-killer",
            r"[Dd]etected \d+ oom[-_]kill event",
            r"(?:step|task|job).{0,60}(?:OUT_OF_MEMORY|Out Of Memory)",
            r"OOMKilled",
            r"The node was low on resource: memory",
            r"result 'oom-kill'|killed by the OOM killer|status=9/KILL",
            r"TERM_MEMLIMIT: job killed",
            r"terminated by SIGKILL",
            r"^make: \*\*\* .{0,200} Error 137$",
            r"^make(?:\[\d+\])?: \*\*\* \[.{1,200}\] Killed$",
            r"^zsh: killed\b",
            r"terminated by signal (?:9$|SIGKILL\b)",
            r"Exceeded (?:job|step) memory limit",
            r"^\S{0,80}(?:: line \d+: +\d+)? ?Killed(?: {2,}\S.*|: 9| by signal 9\.?)?$",
            r"^(?:\[\d+\]\+? +)?(?:\d+ )?Killed(?: {2,}\S.*|: 9)?$",
            LEFT_WITH + r" 137\b",
            r"(?:[Ee]xit(?: |_)?(?:code|status)|returncode)\W{1,3}(?:137|-9)\b",
            r"worker.{0,80}(?:was killed by|died).{0,40}(?:SIGKILL|signal 9)",
        ),
        unless=(
            r"Killed (?:all|old|stale|previous|existing|process(?:es)? with)",
            r"No (?:oom|OOM)",
            r"oom_kill(?:_disable)?[ =:]+0",
        ),
        ends="process",
    ),
    signature(
        id="host_oom",
        title="A worker process was gone while its data was being fetched",
        cause=(
            "A worker that hands tensors over died without a word: most often the kernel ended it for"
            " want of memory, sometimes it crashed in native code."
        ),
        next_steps=(
            "Look for an oom-kill line in the kernel log, or in the cgroup's memory.events.",
            "Fewer DataLoader workers, less prefetch; num_workers=0 shows an error of the data set itself.",
        ),
        references=("https://github.com/pytorch/pytorch/issues/8976",),
        types=(r"ConnectionResetError", r"ConnectionRefusedError", r"EOFError"),
        frames=(r"torch/multiprocessing/reductions\.py:rebuild_storage",),
        ends="process",
    ),
)
