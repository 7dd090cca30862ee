"""Names that daemon, relay and trainer share by text alone (docs/run-contract.md)."""

METRICS_FILE = "metrics.jsonl"
"""In the run's folder, shared by its attempts."""

LOG_FILE = "output.log"
"""In an attempt's folder: every byte the program wrote to its terminal."""

EXIT_FILE = "exit.json"
"""In an attempt's folder, written by rename once the program has ended."""

ATTEMPT_FILE = "attempt.json"
"""In an attempt's folder: relay PID, child PID, start times, boot id, session."""

NO_RESTART_EXIT_CODE = 93
"""A program that ends with it is not to be restarted."""
