"""Loads and makes ahead what every `orch` would, so that forks have it."""

import gc
import importlib
import pkgutil
import threading

import orchestrator.cli
import orchestrator.daemon.serving
from orchestrator.core.detect.engine import Engine
from orchestrator.daemon.inventory_reading import READER
from orchestrator.link.package import probe_package


def warm_up() -> None:
    """Load what commands and daemons load, and keep it out of the garbage collector's sight."""
    for module in pkgutil.iter_modules(orchestrator.cli.__path__, "orchestrator.cli."):
        importlib.import_module(module.name)
    importlib.import_module(READER)
    Engine(())  # compiles the patterns, once for all
    probe_package()
    assert threading.active_count() == 1, "a fork would have one thread of these"
    gc.collect()
    gc.freeze()
