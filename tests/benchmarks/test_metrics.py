"""What counting costs, as a person asks for it."""

import re
import sys

from conftest import run


def test_a_line_tells() -> None:
    """And nothing else does."""
    done = run(sys.executable, "-m", "benchmarks.metrics", "--calls", "1000", "--rounds", "1")
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"counted: -?[\d.]+ µs a call \(-?[\d.]+–-?[\d.]+\)\n", done.stdout)
