"""Parts of the daemon by themselves."""
