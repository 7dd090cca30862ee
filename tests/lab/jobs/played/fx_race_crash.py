"""A thread dies of the FX-tracing race in the midst of output; the process then exits 1."""

import argparse
import sys

from . import fx_race

parser = argparse.ArgumentParser()
parser.add_argument("--lines", type=int, default=400, help="lines of training before the crash")
parser.add_argument("--after", type=int, default=40, help="lines of the other threads after it")
parser.add_argument("--pause", type=float, default=0.0, help="seconds between lines")
parser.add_argument("--stamp", default="", help="file for the time of the traceback's last byte")
options = parser.parse_args()

fx_race.start(options.lines, options.pause)
fx_race.thread_dies(options.stamp)
fx_race.train(options.lines + 1, options.after, options.pause)
fx_race.say("drafter 2 is gone, stopping the others")
sys.exit(1)
