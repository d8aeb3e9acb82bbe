"""Search with atheris for bytes that cause an unexpected exception in a reader.

A reader is a function of `tests.fuzz.targets` that takes any bytes. atheris sees which lines each input reaches.

    python -m tests.fuzz.parser --seconds 60

atheris is not a dependency of the project; install it separately (pip install atheris).
"""

import argparse
import importlib
import logging
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from anyreplica.loadtest.arguments import positive

READERS = ["message", "envelope", "http", "submission", "keys", "signature", "digest", "token", "audit"]
"""Names of readers in `tests.fuzz.targets`.

`_fuzz` imports that module late, because atheris can observe only modules that are imported under its control.
"""

_SEEN = [
    "anyreplica",
    "http_sf",
    "http_message_signatures",
    "mcp.shared",
    "fastmcp.utilities.auth",
    "json",
    "ipaddress",
]
_LONGEST = 4096
"""Maximum size of an input in bytes; `tests.fuzz` covers deeper and longer inputs."""

EXIT_FOUND = 1
EXIT_WRONG = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    options = _parser().parse_args(arguments)
    try:
        atheris = importlib.import_module("atheris")
    except ImportError:
        sys.stderr.write("atheris is not installed; install it with: pip install atheris (it has wheels for Linux).\n")
        return EXIT_WRONG
    readers = options.reader or READERS
    if options.here:
        return _fuzz(atheris, readers[0], options.seconds)
    each = max(1, options.seconds // len(readers))
    codes = []
    for reader in readers:  # a new process for each reader, because atheris ends the process
        sys.stdout.write(f"{reader}: {each} s\n")
        sys.stdout.flush()
        command = [sys.executable, "-m", "tests.fuzz.parser", "--here", "--seconds", str(each), reader]
        codes.append(subprocess.run(command, check=False).returncode)
    return EXIT_FOUND if any(codes) else 0


def _fuzz(atheris: Any, reader: str, seconds: int) -> int:
    with atheris.instrument_imports(include=_SEEN):
        from tests.fuzz.targets import TARGETS
    logging.disable()
    target = TARGETS[reader]
    folder = Path(tempfile.mkdtemp(prefix=f"fuzz-{reader}-"))
    corpus = folder / "corpus"
    corpus.mkdir()
    for number, data in enumerate(target.seeds):
        (corpus / str(number)).write_bytes(data)
    limits = [f"-max_total_time={seconds}", f"-max_len={_LONGEST}", "-timeout=10", f"-artifact_prefix={folder}/"]
    atheris.Setup([sys.argv[0], *limits, "-print_final_stats=1", "-verbosity=0", str(corpus)], target.try_out)
    atheris.Fuzz()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz.parser",
        description="Search with atheris for bytes that cause an unexpected exception in a reader. atheris sees which "
        "lines each input reaches.",
        epilog="Exit codes: 0: no exception. 1: an exception; atheris prints the name of the file with the bytes. "
        "2: invalid arguments, or atheris is not installed.",
    )
    parser.add_argument("reader", nargs="*", choices=READERS, help="reader to test (default: all, one after the other)")
    parser.add_argument(
        "--seconds",
        type=positive,
        default=60,
        metavar="N",
        help="total time for all readers, in seconds (default: %(default)s)",
    )
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
