"""Ignores SIGTERM, SIGINT and SIGHUP, starts a child that does so too, and runs until SIGKILL."""

import os
import signal
import time

for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
child = os.fork()
print(f"{'child' if child == 0 else 'parent'} {os.getpid()} goes on", flush=True)
while True:
    time.sleep(1)
