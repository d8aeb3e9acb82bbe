"""Parsers for single command-line arguments; each refuses a wrong value with an example of a right one.

Each parser raises `argparse.ArgumentTypeError`. argparse prints its message after the name of the argument.
"""

import argparse
import json
import math
import re
from pathlib import Path
from typing import Any

from anyreplica.load.compare import compare
from anyreplica.load.run import LoadPolicy, Ramp
from anyreplica.load.thresholds import Threshold
from anyreplica.signing.keypair import private_key


def positive(text: str) -> int:
    """Parse a whole number above 0."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 0 or more")
    return number


def duration(text: str) -> float:
    """Parse `500ms`, `30s`, `5m`, `1h` or a number without a unit; return seconds."""
    match = re.fullmatch(r"([\d.]+)(ms|s|m|h)?", text)
    seconds = _number(match[1]) * {"ms": 0.001, "m": 60, "h": 3600}.get(match[2], 1) if match else 0.0
    if not seconds:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time above 0; write it like 500ms, 30s or 5m")
    return seconds


def rate(text: str) -> float:
    """Parse a rate; return requests per second."""
    number = _number(text.removesuffix("/s"))
    if not number:
        raise argparse.ArgumentTypeError(f"{text!r} is not a rate above 0; write it like 500/s")
    return number


def ramp(text: str) -> Ramp:
    """Parse a rate that changes over time."""
    match = re.fullmatch(r"([\d.]+):([\d.]+)/(.+)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a ramp; write it like 0:1000/30s")
    found = Ramp(_number(match[1]), _number(match[2]), duration(match[3]))
    if found.first == found.last == 0:
        raise argparse.ArgumentTypeError(f"{text!r} sends nothing; at least one of the two rates must be above 0")
    return found


def policy(text: str) -> LoadPolicy:
    """Parse how long a client keeps a connection."""
    if text == "keepalive":
        return "keepalive"
    if text == "fresh":
        return "fresh"
    match = re.fullmatch(r"recycle:([1-9]\d*)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not keepalive, fresh or recycle:N")
    return int(match[1])


def header(text: str) -> tuple[str, str]:
    """Parse a header; return its name and its value."""
    name, colon, value = text.partition(":")
    if not colon or not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) or not value.strip().isprintable():
        raise argparse.ArgumentTypeError(f"{text!r} is not a header; write it like 'X-Tenant: blue'")
    return name, value.strip()


def json_object(text: str) -> dict[str, Any]:
    """Parse a JSON object."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"{text!r} is not a JSON object")
    return value


def mix(text: str) -> list[dict[str, Any]]:
    """Read a file that describes a mix; return its entries."""
    try:
        value = json.loads(Path(text).read_text())
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"can't read {text!r} as JSON: {error}") from None
    if not (isinstance(value, list) and value and all(isinstance(each, dict) for each in value)):
        raise argparse.ArgumentTypeError(f'{text!r} is not a list like [{{"weight": 3, "tool": "add", "args": {{}}}}]')
    return value


def earlier_run(text: str) -> dict[str, Any]:
    """Read the JSON report of an earlier run."""
    try:
        run = json.loads(Path(text).read_text())
        compare(run, run)
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"can't read {text!r} as JSON: {error}") from None
    except (KeyError, TypeError):
        raise argparse.ArgumentTypeError(f"{text!r} is not a report that --json wrote") from None
    return dict(run)


def threshold(text: str) -> Threshold:
    """Parse a threshold."""
    try:
        return Threshold.of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def private_key_file(text: str) -> bytes:
    """Read a file with a private key in PEM; return its content."""
    try:
        pem = Path(text).read_bytes()
        private_key(pem)
    except OSError as error:
        raise argparse.ArgumentTypeError(f"can't read {text!r}: {error.strerror}") from None
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None
    return pem


def new_file(text: str) -> Path:
    """Parse the path of an output file; its folder must exist."""
    if not Path(text).parent.is_dir():
        raise argparse.ArgumentTypeError(f"the folder {str(Path(text).parent)!r} does not exist")
    return Path(text)
