"""How long a deploy takes, beside rsync and tar, into a real container through ssh and pct."""
