"""`python -m tests.busy [--loops 4] COMMAND …` runs a command beside busy loops, as other work on a machine may be."""

import argparse
import multiprocessing
import os
import signal
import subprocess
import sys


def _loop(parent: int) -> None:
    """Use one core until the parent has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while os.getppid() == parent:
        for _ in range(1_000_000):
            pass


def main() -> int:
    """Run the command line and return the exit code of the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.busy", description="Run a command beside busy loops.")
    parser.add_argument("--loops", type=int, default=4, metavar="N", help="number of loops (default: 4)")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    loops = [multiprocessing.Process(target=_loop, args=(os.getpid(),)) for _ in range(given.loops)]
    for loop in loops:
        loop.start()
    try:
        return subprocess.run(given.command, check=False).returncode
    finally:
        for loop in loops:
            loop.terminate()
            loop.join()


if __name__ == "__main__":
    sys.exit(main())
