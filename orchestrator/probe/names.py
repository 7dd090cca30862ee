"""Names of the files in an attempt's folder, as orchestrator.core.contract has them.

The probe is shipped alone, so it cannot import that module; a test holds the two together.
"""

LOG_FILE = "output.log"
EXIT_FILE = "exit.json"
ATTEMPT_FILE = "attempt.json"

GAPS_FILE = "gaps.jsonl"
"""Bytes that were dropped on a full disk: one JSON object a line, blank lines in between."""

REPLACED = "replaced"
"""A gap's reason: something else lies in the log's place, what follows is in the moved file."""

ORPHANS_FILE = "orphans.json"
"""What the program left to the relay, for the case that this one is killed."""

SPEC_FIFO = "spec"
"""One-shot, 0600: the way in which the environment, secrets included, reaches the relay."""

AWAITED_FILE = "unacknowledged"
"""There until a daemon has stored how the attempt ended; only where the relay may alert itself."""

OWN_ALERT_FILE = "own_alert.json"
"""What the relay itself sent: under which id, and what its receivers answered."""

ADOPTION_FILE = "adoption.json"
"""What was adopted: the relay of an adoption begins with it."""

SCROLLBACK_FILE = "scrollback"
"""What tmux still had of a pane when it was adopted."""

KERNEL_LOG = "/dev/kmsg"

POKE_FIFO = "poke"
"""The relay writes a byte here where its own writes would not be seen in time (pace.py)."""

POKE_BYTES = b"d"
POKE_STEADY = b"s"
POKE_RECORD = b"c"
