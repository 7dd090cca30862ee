"""Signatures of ranks talking to each other, and of the launchers above them."""

from orchestrator.core.detect.exit_codes import LEFT_WITH
from orchestrator.core.detect.signatures.model import Signature, signature
from orchestrator.core.findings import Role

SIGNATURES: tuple[Signature, ...] = (
    signature(
        id="nccl_timeout",
        title="A collective timed out: one rank did not come",
        cause=(
            "The ranks that print this waited for one that never joined the collective. Look for the rank"
            " that is silent, at another SeqNum, or that printed an error of its own earlier."
        ),
        next_steps=(
            "Find the earliest error over all ranks, and the rank missing from the last collective.",
            "Set TORCH_NCCL_TRACE_BUFFER_SIZE=2000 and TORCH_NCCL_DUMP_ON_TIMEOUT=1 for the flight recorder.",
            "If one rank compiles or saves for long: a barrier with a longer timeout around it.",
        ),
        transient=True,
        references=(
            "https://github.com/pytorch/pytorch/issues/113128",
            "https://github.com/hiyouga/LlamaFactory/issues/7396",
        ),
        says=(
            r"collective operation timeout",
            r"Watchdog caught collective",
            r"Timed out waiting \d+ms for (?:recv|send)",
            r"collectives? (?:operation )?(?:has )?timed out",
            r"\[Rank \d+\] (?:Watchdog|Caught collective) ",
            r"Some NCCL operations have failed or timed out",
            r"Received a dump signal due to a collective timeout",
            r"monitoredBarrier",
            r"Application timeout caused pair closure",
        ),
        lines=(
            r"Watchdog caught collective operation timeout",
            r"taking the entire process down",
            r"watchdog got stuck for \d+ seconds",
            r"Could not acquire GIL within \d+ ms on exit, possible GIL induced hang",
            r"Received a (?:dump|timeout) signal.{0,120}timeout",
            r"Some NCCL operations have failed or timed out",
            r"Terminating the process after attempting to dump debug info, due to",
            r"HeartbeatMonitor.{0,200}(?:stuck|no progress|heartbeat timeout|terminate)",
        ),
        rests=(
            r"^Exception raised from checkTimeout at ",
            r"^frame #\d+: c10d::ProcessGroupNCCL::WorkNCCL::checkTimeout\(",
        ),
        ends="rank",
    ),
    signature(
        id="rendezvous_or_port",
        title="The ranks did not find each other, or the port was taken",
        cause=(
            "Before the first step the ranks meet at one address and port. It was taken by another job,"
            " not reachable, or not all ranks came in time."
        ),
        next_steps=(
            "End what is left of the last run, or change the port.",
            "Check MASTER_ADDR, the firewall between the hosts, and that every node was started.",
        ),
        transient=True,
        references=("https://github.com/pytorch/pytorch/issues/74146",),
        types=(
            r"RendezvousConnectionError",
            r"RendezvousTimeoutError",
            r"Rendezvous\w+Error",
            r"DistStoreError",
        ),
        says=(
            r"EADDRINUSE",
            r"[Aa]ddress already in use",
            r"waiting for clients\. \d+/\d+ clients joined",
            r"client socket has (?:timed out|failed to connect)",
            r"server socket has failed to (?:listen|bind)",
            r"[Rr]endezvous.{0,80}(?:failed|timed? ?out|closed)",
            r"Stop_waiting response is expected",
            r"could not be resolved|Name or service not known.{0,80}c10d",
            r"Gloo connectFullMesh failed",
        ),
    ),
    signature(
        id="nccl_error",
        title="NCCL or Gloo failed between ranks",
        cause=(
            "The communication between ranks broke: a peer that died, the network, or a wrong use. Most"
            " often the speaker is a victim of a rank that failed earlier."
        ),
        next_steps=(
            "Look for the earliest error over all ranks first.",
            "NCCL_DEBUG=INFO shows the interface and the peer; set NCCL_SOCKET_IFNAME where there are several.",
            "ncclInvalidUsage: two ranks on one GPU, or tensors of different shapes.",
        ),
        transient=True,
        references=(
            "https://github.com/NVIDIA/nccl/issues/2076",
            "https://github.com/pytorch/pytorch/issues/118369",
        ),
        types=(r"DistBackendError",),
        says=(
            r"NCCL error",
            r"nccl(?:System|Remote|UnhandledCuda|Internal|InvalidUsage|InvalidArgument)\w*Error",
            r"ncclInvalidUsage",
            r"ncclInvalidArgument",
            r"NCCL Error \d",
            r"Connection (?:reset|closed) by peer",
            r"Broken pipe.{0,80}(?:gloo|c10d|tcp)",
            r"gloo/transport",
            r"ProcessGroupNCCL",
            r"ProcessGroupGloo",
            r"NCCL (?:communicator|Backend).{0,80}(?:abort|fail|error)",
            r"Detected mismatch between collectives on ranks",
            r"Duplicate GPU detected",
            r"DeepEP.{0,60}timeout",
        ),
        lines=(
            r"Watchdog thread (?:terminated|caught) (?:with )?exception: NCCL",
            r"^what\(\):.{0,200}NCCL error",
            r"NCCL watchdog thread (?:terminated|found errors)",
            r"[Ww]atchdog thread terminated with exception: .{0,40}NCCL error",
        ),
        unless=(
            r"NCCL (?:INFO|WARN)",
            r"retry(?:ing)? ",
            r"^ConnectionResetError: \[Errno 104\]",
            r": ConnectionResetError: ",
        ),
        ends="rank",
    ),
    signature(
        id="elastic_child_failed",
        title="A worker failed, and its launcher printed no cause",
        cause=(
            "The launcher reports that a worker ended, with its rank and exit code. The cause is in that"
            " worker's own output, which is not in this log."
        ),
        next_steps=(
            "Read the earliest lines of the rank named as root cause (torchrun --redirects, error files).",
            "Decorate main with torch.distributed.elastic.multiprocessing.errors.record.",
        ),
        role=Role.CASCADE,
        transient=None,
        references=("https://pytorch.org/docs/stable/elastic/errors.html",),
        types=(
            r"ChildFailedError",
            r"ProcessExitedException",
            r"ProcessRaisedException",
            r"WorkerGroupFailure\w*",
        ),
        says=(
            r"Command .{0,40}(?:python|torchrun|accelerate|deepspeed).{0,2000} (?:returned non-zero exit status \d|died with )",
            r"Process \d+ terminated with",
        ),
        lines=(
            r"failed \(exitcode: -?\d+\) local_rank: \d+",
            r"Killing subprocess \d+",
            r"exits? with return code = -?[1-9]",
            r"(?:srun|slurmstepd): error: .{0,120}(?:Exited with exit code|Terminated|task \d+: )",
            r"mpirun (?:noticed|detected) that",
            r"Primary job +terminated normally, but \d+ process",
            r"##\[error\]Process completed with exit code [1-9]",
            r"^make(?:\[\d+\])?: \*\*\* \[.{1,200}\] Error [1-9]\d{0,2}$",
            r"^Command exited with non-zero status [1-9]",
            r"\(exit status [1-9]\d*; not expected\)",
            r"Main process exited, code=exited, status=[1-9]",
            LEFT_WITH + r" (?:[1-9]\d?|1[0-35-9]\d|13[0-689])\b",
            r"^\[\d+\][+-]? +(?:\d+ +)?Exit [1-9]\d{0,2}\b",
        ),
        unless=(r"\(exitcode: 0\)",),
        ends="process",
    ),
)
