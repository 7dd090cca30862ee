"""`orch` from a warm process: a fork has everything imported, which is most of what a start costs.

client.py      `with Nursery() as nursery: nursery.run(["status"], folder=..., env=...)`
__main__.py    the warm process: one thread, no event loop; it forks for each order
warm.py        what is loaded before the first fork
interpreter.py the program that a fork has as its sys.executable: asks for a fork in its turn

A fork runs the program whole, in a process of its own, with the folder, environment, files, umask
and session that a started Python would have. What it does not have are a command line and an
environment in /proc, a seed of hashes and an ASLR of its own: tests that look at those take a
Python for each command (docs/decisions/nursery.md).
"""
