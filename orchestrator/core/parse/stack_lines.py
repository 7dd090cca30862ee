"""The kinds of lines that stacks are made of, and the reading of one frame or exception.

Owns the patterns; never looks at more than one line. Which lines make up one stack is `traceback`'s
question.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

from orchestrator.core.findings import ExceptionText, Frame

HEADER = re.compile(r"(?:Exception Group )?Traceback \(most recent call last\)")
FRAME = re.compile(r'\bFile "([^"]{1,1000})", line (\d{1,9})(?:, in (.{1,400}))?$')
OPEN_FRAME = re.compile(
    r'^\s*File "[^"]*(?:"(?:,(?: l?(?:i?(?:n?(?:e?(?: \d*(?:, ?(?:in?)? ?)?)?)?)?)?)?)?)?$'
)
"""A frame cut in the middle, as a pane does at its right edge."""
FAULT_FRAME = re.compile(r'^\s*File "([^"]{1,1000})", line (\d{1,9}|\?\?\?) in (.{1,400})$')
RICH_FRAME = re.compile("^(?P<file>.{1,1000}):(?P<line>\\d{1,7}) in (?P<function>.{1,200})$")
NOTEBOOK_FRAME = re.compile(
    r"^(?:File |(?=/))(?P<file>/[^\s:]{1,800}|~[^\s:]{1,800})(?::(?P<line>\d{1,7}))?(?:,)? in (?P<function>[\w.<>]{1,200})\(.*\)$"
    r"|^(?:File )?(?P<cell>Cell In\[\d+\]|<ipython-input-[\w-]+>)(?:, line (?P<cell_line>\d{1,7}))?(?:,? in (?P<cell_function>[\w.<>]{1,200}).*)?$"
)
NOTEBOOK_ARROW = re.compile(r"^-+> ?(?P<line>\d{1,7}) ")
EXCEPTION = re.compile(
    r"^(?P<type>(?:[A-Za-z_]\w{0,80}\.){0,9}[A-Za-z_]\w{0,100}(?:\([A-Za-z_]\w{0,80}(?:\.[A-Za-z_]\w{0,80}){0,5}\))?)(?: ?:(?: (?P<message>.*)|(?P<bare>\S.*)?)|\s*)$"
)
_STRONG = re.compile(
    r"(?:Error|Exception|Interrupt|Exit|Warning|Iteration|Failed|Failure|Failures|Timeout|Abort"
    r"|Aborted|Cancelled|Unsupported|Hit|OutOfResources|Traceback|Group|Killed|Full|Empty|Stopped"
    r"|Refused|Violation|Fault|NotFound|Lost|Died|Preempted|Pruned|Skip|Missing|Invalid|Denied"
    r"|Found|Reached|Limit|Exceeded|Again|Overflow|Underflow|Mismatch)(?:\(.*\))?$"
)
SURE = re.compile(
    r"(?:Error|Exception|Interrupt|SystemExit|Exit|Unsupported|RemoteTraceback)(?:\(.*\))?$"
)
CHAIN = re.compile(
    r"^(?:The above exception was the direct cause of the following exception:"
    r"|During handling of the above exception, another exception occurred:)"
)
CHAIN_CAUSE = "The above exception was the direct cause"
_ANNOUNCES = re.compile(
    r"Caught \w+ in |terminated with the following error:|Original Traceback|RemoteTraceback"
    r"|ray::|Traceback of TorchScript|The original cause is|TrainingFailedError|RayTaskError"
    r"|ActorDiedError|Process \d+ terminated|CheckpointException ranks:"
)
_LONG = (
    *("CUDA error", "CUDA driver", "NCCL error", "_dynamo", "_inductor", "Weights only", "triton"),
    *("Triton", "PTXAS", "DistBackend", "ProcessRaised", "ValidationError", "state_dict", "cuDNN"),
    *("Caught ", "ChildFailedError", "RayTaskError", "HTTPError", "BackendCompilerFailed"),
    *("CppCompileError", "InductorError", "Unsupported", "RemoteTraceback", "AcceleratorError"),
    *("TorchScript", "following operation failed", "Expected to have finished", "NCCL Backend"),
    *("DistNetworkError", "DistStoreError", "size mismatch", "We couldn't connect"),
    *("CompilationError", "marked ready", "marked as ready"),
)
LINKED = re.compile(
    r"^(?:CUDA kernel errors might|For debugging consider|Compile with `TORCH_USE|Device-side assert"
    r"|Set TORCHDYNAMO|You can suppress|import torch\._dynamo|Set TORCH_LOGS|from user code:"
    r"|While executing|Original traceback:|Original Traceback|Last error:|nccl\w+Error:|Exception raised from"
    r"|frame #\d+:|Search for `|Check the documentation|Please file an issue|set TORCH|The stack trace of"
    r"|Call using|Original exception|Parameter indices which|In addition, you can set|making sure all"
    r"|To execute this test|Error in Last|If reserved|See documentation|GPU \d+ has|Note:|-- Process"
    r'|"""|Unhandled|Hint|Explanation|Developer debug|For more details|Last call|C\+\+ CapturedTraceback)'
)
FOREIGN = re.compile(
    r"^(?:\S+:\d+: \w*Warning: |wandb: |srun: |slurmstepd: |make: |\S+@\S+:\S*[#$]|[$#] |Killed\b|Aborted\b"
    r"|Segmentation fault|\S+ exited with code|-{20,}$|={20,}|Ran \d+ tests? in|OK\b|[{]\"|[Dd]one\b|[Ff]inished\b|(?:INFO|WARNING|ERROR|DEBUG)\b|Exception ignored|\+ \w"
    r"|(?:[Rr]estart|[Rr]esum|[Rr]etry|[Ss]kip|[Ff]all)\w*\b|Exception in thread|Process \S+:$)"
)
_PROGRESS_WORD = re.compile(
    r"^(?:Epoch|Step|Iter|Iteration|Loss|Train|Training|Val|Valid|Eval|Batch|Test|Saving|Saved|Total"
    r"|Using|Loading|Loaded|INFO|Note|Warning|Rank|Time|Resuming|Retrying|Done|Finished)\b",
)
TABLE_LINE = re.compile(
    r"^(?:\s+\S|[=*-]{5,}|\[\d+\]:|.{1,200} FAILED\s*$|(?:Other )?Failures:|Root Cause|<NO_OTHER)"
)
RULER = re.compile(r"^\s*\+[-+]*- (?:\d+|\.\.\.) -+$")
"""What stands above each exception of a group."""
TERMINATE = re.compile(
    r"terminate called (?:after throwing an instance of '(?P<type>[^']{1,200})'|without an active"
    r"|recursively)"
)
WHAT = re.compile(r"^\s*what\(\):\s*(.*)$")
FAULT_THREAD = re.compile(
    r"^(?P<current>Current t)?(?:T|t)?(?:hread 0x[0-9a-f]+|(?<=t)hread 0x[0-9a-f]+)?(?: \[(?P<name>[^\]]{1,80})\])?"
    r"(?:Stack)? ?\(most recent call first\):"
)
FAULT_NOTE = re.compile(
    r"^(?:Extension modules:|  Binary file \"|Python runtime state:|  <no Python frame>|  <cannot get"
    r"|  \.\.\.|Segmentation fault$|Aborted$|Bus error$|Floating-point|Illegal instruction$"
    r"|Current thread's C stack|  Garbage-collecting|  <truncated|<Cannot show)"
)
GOING_ON = re.compile(
    r"(?:\b(?:step|iter|iteration|epoch|loss|batch|lr|it/s|s/it|tok(?:en)?s?/s(?:ec)?|samples/s|eta|acc)\b.{0,40}\d"
    r"|\d+%\|)",
    re.IGNORECASE,
)


MIN_NAME_CHARS = 4
"""Of an unusual exception that stands alone; shorter ones are what a pane cut off a line."""


def header_of(text: str) -> re.Match[str] | None:
    """The header of a traceback, anywhere in the line."""
    return HEADER.search(text) if "Traceback (most" in text else None


def frame_of(text: str) -> Frame | None:
    """The frame that a line of a Python or faulthandler stack names."""
    return _frame_of(text) if 'File "' in text else None


@lru_cache(maxsize=256)
def _frame_of(text: str) -> Frame | None:
    if fault := FAULT_FRAME.match(text):
        number = int(fault[2]) if fault[2].isdigit() else 0
        return Frame(file=fault[1], line=number, function=fault[3])
    if found := FRAME.search(text):
        return Frame(file=found[1], line=int(found[2]), function=found[3] or "<module>")
    return None


def exception_of(text: str, *, sure: bool = False) -> ExceptionText | None:
    """The exception that a line names at its start; `sure` asks for a name that can be no other."""
    found = EXCEPTION.match(text)
    if found is None or _PROGRESS_WORD.match(text):
        return None
    name = found["type"]
    if text[found.end("type") :].startswith(" :") and not SURE.search(name):
        return None  # only two threads that print at once part a name from its colon
    last = name.split("(", 1)[0].rpartition(".")[2]
    if sure and not (SURE.search(name) and (":" in text or not found["message"])):
        return None
    if not (_STRONG.search(last) or last[:1].isupper() or "." in name):
        return None
    if (found["bare"] or len(text.strip()) < MIN_NAME_CHARS) and not _STRONG.search(last):
        return None
    return ExceptionText(type=name, message=(found["message"] or found["bare"] or "").strip())


def is_long(text: str) -> bool:
    """Whether the exception that the line names is one whose messages have many lines."""
    return any(words in text for words in _LONG)


def announces(lines: Iterable[str]) -> bool:
    """Whether one of the lines says that another program's stack follows."""
    return _ANNOUNCES.search("\n".join(lines)) is not None


def going_on(text: str) -> bool:
    """Whether the line reads as a training job's own: a step, a loss, a progress bar."""
    return bool(GOING_ON.search(text[:400]))


def looks_like_path(text: str) -> bool:
    """Whether the text begins as the path of a file does."""
    return text.startswith(("/", "~", "<", "./", "../")) or bool(re.match(r"[A-Za-z]:\\", text))


def without_margin(text: str) -> str:
    """A line of an exception group without the `|` and `+` of its depth."""
    found = re.match(r"^(?:\s*[|+](?:-\+-[^|]*|-+[^|]*)? ?)+", text)
    return text[found.end() :] if found else text
