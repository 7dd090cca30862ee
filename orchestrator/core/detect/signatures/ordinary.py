"""Signatures of native deaths, interruptions, numbers gone bad, and every other Python exception."""

from orchestrator.core.detect.exit_codes import LEFT_WITH
from orchestrator.core.detect.signatures.model import Signature, signature
from orchestrator.core.model import Severity

SIGNATURES: tuple[Signature, ...] = (
    signature(
        id="nan_loss",
        title="The loss or a gradient became NaN or infinite",
        cause=(
            "A value overflowed or an operation was undefined; a check in the code or autograd's anomaly"
            " mode noticed it. The cause lies before the step that noticed it."
        ),
        next_steps=(
            "Go back to the last finite step: its batch, learning rate and gradient norm.",
            "fp16: look at the loss scale; bf16 has the range. Clip gradients, warm up longer.",
            "torch.autograd.set_detect_anomaly(True) on that batch names the operation.",
        ),
        types=(r"NaNLoss\w*", r"NanLoss\w*", r"NonFinite\w*", r"FloatingPointError"),
        says=(
            r"returned nan values in its \d+th output",
            r"(?i:\bloss\b.{0,60}\b(?:is|was|became|went|=|:|of|are)?\s*(?:now )?\(?(?:nan|inf|-inf|infinite|non-?finite|not finite))\b",
            r"(?i:\b(?:nan|inf|non-?finite|not finite|infinite)\b.{0,40}\b(?:loss|grad(?:ient)?s?|grad_?norm)\b)",
            r"(?i:\b(?:grad(?:ient)?s?|grad_?norm|total norm)\b.{0,60}\b(?:is|are|contains?|became|non-?finite)\b.{0,20}\b(?:nan|inf|non-?finite)\b)",
            r"The total norm of order .{0,80}is non-finite",
            r"Minimum loss scale reached",
            r"[Cc]urrent loss scale already at minimum",
            r"(?i:contains? (?:nan|inf)|nan detected|nan encountered|(?:nan|inf) found)",
        ),
        lines=(
            r"(?i:\b(?:nan|non-?finite|inf)\b.{0,60}\b(?:abort|stopp?ing|exiting|terminat|halt|giving up))",
            r"(?i:\b(?:abort|stopp?ing|exiting|terminat|halt)\w*\b.{0,60}\b(?:nan|non-?finite)\b)",
        ),
        ends="process",
    ),
    signature(
        id="segfault",
        title="The program died of a memory fault or an abort in native code",
        cause=(
            "Native code read or wrote outside its memory, or called abort. Extensions built for another"
            " torch, two copies of one library, and races inside compilers are the usual reasons."
        ),
        next_steps=(
            "Run with python -X faulthandler (or PYTHONFAULTHANDLER=1) to see the Python stack.",
            "Check the extensions against this torch; gdb -batch -ex bt on a core dump.",
            "If the stack is inside a torch.compile and other threads were alive: see fx_trace_race.",
        ),
        transient=None,
        references=("https://docs.python.org/3/library/faulthandler.html",),
        says=(
            r"Fatal Python error: ",
            r"terminated with signal SIG(?:SEGV|ABRT|BUS|ILL|FPE)",
            r"killed by signal: (?:Segmentation fault|Aborted|Illegal instruction|Floating point)",
            r"died with <Signals\.SIG(?:SEGV|ABRT|BUS|ILL|FPE)",
            r"Signal (?:11|6|7|4|8) \(SIG\w+\) received",
            r"terminate called ",
        ),
        lines=(
            r"Fatal Python error: ",
            r"(?:^|[:\s\]])(?:Segmentation fault|Aborted|Bus error|Illegal instruction|Floating point exception|Trace/breakpoint trap)(?: *\(core dumped\))?(?: {2,}\S.*|[\"'].*)?$",
            r"line \d+: +\d+ Floating point exception\S",
            r"^zsh: (?:segmentation fault|abort|bus error|illegal hardware instruction|floating point exception|trace trap)\b",
            r"^make(?:\[\d+\])?: \*\*\* \[.{1,200}\] (?:Segmentation fault|Aborted|Bus error|Illegal instruction|Floating point exception)",
            r"terminated by signal (?:(?:11|6|7|4|8)$|SIG(?:SEGV|ABRT|BUS|ILL|FPE)\b)",
            r"\*\*\* (?:SIG(?:SEGV|ABRT|BUS|ILL|FPE)|Process received signal)",
            r"Signal: (?:Segmentation fault|Aborted|Bus error) \(\d+\)",
            r"!!!!!!! Segfault encountered !!!!!!!",
            r"^(?:free|malloc|realloc|munmap_chunk|corrupted)\S{0,40}(?:\(\)|size|double|unsorted).{0,80}(?:invalid|corrupt|double free|mismatch)",
            r"^double free or corruption",
            r"stack smashing detected",
            r"\[\d+\]: segfault at [0-9a-f]+ ip",
            LEFT_WITH + r" (?:139|134|135|136|132)\b",
            r"(?:[Ee]xit(?: |_)?(?:code|status)|returncode)\W{1,4}(?:139|134|-11|-6)\b",
            r"Caught signal (?:11|6|7) \(",
            r"status=(?:11/SEGV|6/ABRT|7/BUS|4/ILL|8/FPE)|terminated by SIG(?:SEGV|ABRT|BUS|ILL|FPE)",
            r"Process \d+ (?:was )?(?:killed|terminated) (?:by|with) signal (?:11|6|SIGSEGV|SIGABRT)",
        ),
        ends="process",
    ),
    signature(
        id="interrupted",
        title="The run was interrupted from outside",
        cause=(
            "A person, a scheduler or a time limit ended it with a signal. It is no bug of the program."
        ),
        next_steps=(
            "Resume from the newest checkpoint.",
            "Save a checkpoint on SIGTERM where the scheduler preempts.",
        ),
        severity=Severity.WARNING,
        transient=True,
        types=(
            r"KeyboardInterrupt",
            r"SignalException",
            r"SIGTERMException",
            r"PreemptionError",
            r"Preempted\w*",
        ),
        says=(
            r"got signal: (?:15|2|1)\b",
            r"Signal (?:15|2|1) \(SIG\w+\) received",
            r"terminated with signal SIG(?:TERM|INT|HUP)",
        ),
        lines=(
            r"CANCELLED AT .{0,60}(?:DUE\b|\*\*\*)",
            r"DUE TO (?:TIME LIMIT|PREEMPTION|JOB REQUEUE|NODE FAILURE)",
            r"[Rr]eceived (?:SIGTERM|SIGINT|SIGHUP|signal (?:15|2)\b|Signals\.SIG(?:TERM|INT))",
            r"Received \d+ death signal, shutting down workers",
            r"^(?:\S+: line \d+: +\d+ )?Terminated(?: {2,}\S.*)?$",
            LEFT_WITH + r" (?:143|130)\b",
            r"(?:[Ee]xit(?: |_)?(?:code|status)|returncode)\W{1,4}(?:143|130|-15|-2)\b",
            r"[Pp]reempt(?:ed|ion notice|ion)\b.{0,80}(?:terminat|evict|shut|stopp|signal)",
            r"(?:[Cc]aught|[Gg]ot|[Hh]andling) (?:SIGTERM|SIGINT|signal (?:15|2|SIGTERM|SIGINT))\b",
            r"^(?:\^C)+\s*$|^\^C.{0,40}(?:Traceback|Interrupt|Exception|Aborted)",
            r"^(?:\S+: line \d+: +\d+ )?(?:Alarm clock|Hangup|User defined signal [12]|CPU time limit exceeded|Quit \(core dumped\))(?: {2,}\S.*)?$",
            r"^\[\d+\][+-]? +(?:\d+ +)?(?:Interrupt|Terminated|Hangup) +.{0,200}(?:python|torchrun|accelerate|deepspeed|\.sh\b|\.py\b)",
            r"^zsh: (?:terminated|interrupt|hangup|alarm)\b +.{0,200}(?:python|torchrun|accelerate|deepspeed|\.sh\b|\.py\b)",
            r"terminated by signal (?:(?:15|2|1)$|SIG(?:TERM|INT|HUP)\b)",
            r"Interrupted by user",
            r"TERM_(?:RUNLIMIT|OWNER|PREEMPT|REQUEUE_OWNER): job killed",
            r"PBS: job killed: walltime",
            r"^timeout: sending signal (?:TERM|INT|HUP)",
        ),
        ends="process",
    ),
    signature(
        id="python_error",
        title="An error that nothing caught",
        cause="The code raised an exception that nothing caught. The innermost line of your own code is the place to look.",
        next_steps=(
            "Open the line named as the innermost frame of your own code.",
            "Run that step alone on the CPU with the same configuration.",
        ),
        types=(r".+",),
        lines=(
            r"^\S{1,80}: error: (?:the following arguments are required|unrecognized arguments|argument |invalid |ambiguous option|one of the arguments|too few|expected )",
            r"^(?:/\S+/)?python[\d.]*: can't open file ",
            r"^(?:bash|sh|zsh|/bin/\w+|/usr/bin/env)\S*: .{0,200}(?:command not found|No such file or directory|Permission denied|unbound variable|parameter (?:null or )?not set)$",
            r"^\S{1,80}: (?:-c: )?(?:line )?\d+: .{0,200}(?:command not found|: No such file or directory|: Permission denied|unbound variable|parameter (?:null or )?not set|syntax error near unexpected token .*|syntax error: unexpected .*)$",
            r"^hydra\.errors\.",
            r"^\S{1,200}\.(?:c|cc|cpp|cxx|cu|cuh|h|hpp)(?:\(\d+\)|:\d+(?::\d+)?): (?:fatal )?error: ",
            r"^(?:ERROR: )?(?:No matching distribution found for|Could not find a version that satisfies) ",
            r"^Set the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace",
            r"^Usage: \S+ \[OPTIONS\]",
            r"^(?:ERROR: )?(?:The function received no value for the required argument|Could not consume arg|Cannot find key): ",
            "^\u256d\u2500 (?:Error|Parsing error|Required options|Unrecognized options|Invalid choice) \u2500",
            r"Flags parsing error: ",
            r"^=*\s?\d+ (?:failed|errors?)(?:, \d+ \w+)* in \d[\d.]*s",
        ),
        ends="process",
    ),
)
