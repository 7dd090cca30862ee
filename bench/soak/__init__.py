"""Random kills of the daemon, counted."""
