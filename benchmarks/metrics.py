"""What counting a call for `/metrics` costs.

python -m benchmarks.metrics
"""

import argparse
import time
from functools import partial
from statistics import median

from starlette.types import Scope

from server.metrics.requests import Requests
from server.middleware.access_lines import CALL, WAY, Write

_SCOPE: Scope = {CALL: ("tools/call", "echo"), WAY: ("stateless", "fast")}


def main() -> None:
    """Measure in turns, and print the difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=200_000, help="calls of each round (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=7, help="rounds (default: %(default)s)")
    options = parser.parse_args()
    counting = Requests(lambda: {"echo": ""}, lambda: False).counting(_nothing)
    cost = [
        _microseconds(counting, options.calls) - _microseconds(_nothing, options.calls) for _ in range(options.rounds)
    ]
    print(f"counted: {median(cost):.2f} µs a call ({min(cost):.2f}–{max(cost):.2f})")  # noqa: T201


def _nothing(identity: str, scope: Scope, status: int, seconds: float) -> None:
    """Write no line."""


def _microseconds(write: Write, calls: int) -> float:
    call = partial(write, "id", _SCOPE, 200, 0.00005)
    began = time.process_time()
    for _ in range(calls):
        call()
    return (time.process_time() - began) / calls * 1e6


if __name__ == "__main__":
    main()
