"""`python3 -m played NAME [ARGS]` plays the program NAME."""

import runpy
import sys

if len(sys.argv) < 2:
    sys.exit("usage: python3 -m played NAME [ARGS]")
name = sys.argv[1]
sys.argv = [name, *sys.argv[2:]]
runpy.run_module(f"{__package__}.{name}", run_name="__main__")
