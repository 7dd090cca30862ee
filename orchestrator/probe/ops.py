"""The shape of an op: a function in a module's `OPS`, run in a worker thread by serve.py."""

from collections.abc import Callable

from .frames import Frame

Progress = Callable[[Frame], None]
"""Sends a `progress` frame for the call."""

Op = Callable[[Frame, Progress], Frame]
"""Arguments and progress -> the value of the result; any exception is its error."""
