"""What single arguments of the command line mean; what makes no sense is refused with an example of what would.

Each raises `argparse.ArgumentTypeError`, which argparse prints beside the argument's name.
"""

import argparse
import json
import math
import re
from pathlib import Path
from typing import Any

from mcp_swarm.loadtest.compare import compare
from mcp_swarm.loadtest.pace import Ramp
from mcp_swarm.loadtest.run import LoadPolicy
from mcp_swarm.loadtest.thresholds import Threshold
from mcp_swarm.signing.keypair import private_key


def positive(text: str) -> int:
    """A whole number above 0."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of 0 or more")
    return number


def duration(text: str) -> float:
    """Seconds, from `500ms`, `30s`, `5m`, `1h` or a bare number."""
    match = re.fullmatch(r"([\d.]+)(ms|s|m|h)?", text)
    seconds = _number(match[1]) * {"ms": 0.001, "m": 60, "h": 3600}.get(match[2], 1) if match else 0.0
    if not seconds:
        raise argparse.ArgumentTypeError(f"{text!r} is no time above 0; it looks like 500ms, 30s or 5m")
    return seconds


def rate(text: str) -> float:
    """Requests per second."""
    number = _number(text.removesuffix("/s"))
    if not number:
        raise argparse.ArgumentTypeError(f"{text!r} is no rate above 0; it looks like 500/s")
    return number


def ramp(text: str) -> Ramp:
    """A rate that changes."""
    match = re.fullmatch(r"([\d.]+):([\d.]+)/(.+)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no ramp; it looks like 0:1000/30s")
    found = Ramp(_number(match[1]), _number(match[2]), duration(match[3]))
    if found.first == found.last == 0:
        raise argparse.ArgumentTypeError(f"{text!r} sends nothing")
    return found


def policy(text: str) -> LoadPolicy:
    """How long connections are kept."""
    if text == "keepalive":
        return "keepalive"
    if text == "fresh":
        return "fresh"
    match = re.fullmatch(r"recycle:([1-9]\d*)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is none of keepalive, fresh, recycle:N")
    return int(match[1])


def header(text: str) -> tuple[str, str]:
    """A header: its name and its value."""
    name, colon, value = text.partition(":")
    if not colon or not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) or not value.strip().isprintable():
        raise argparse.ArgumentTypeError(f"{text!r} is no header; it looks like 'X-Tenant: blue'")
    return name, value.strip()


def json_object(text: str) -> dict[str, Any]:
    """A JSON object."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"{text!r} is no JSON object")
    return value


def mix(text: str) -> list[dict[str, Any]]:
    """The entries of a mix."""
    try:
        value = json.loads(Path(text).read_text())
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"can't read {text!r} as JSON: {error}") from None
    if not (isinstance(value, list) and value and all(isinstance(each, dict) for each in value)):
        raise argparse.ArgumentTypeError(f'{text!r} is no list like [{{"weight": 3, "tool": "add", "args": {{}}}}]')
    return value


def earlier_run(text: str) -> dict[str, Any]:
    """An earlier run's figures."""
    try:
        run = json.loads(Path(text).read_text())
        compare(run, run)
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"can't read {text!r} as JSON: {error}") from None
    except (KeyError, TypeError):
        raise argparse.ArgumentTypeError(f"{text!r} is no run that --json wrote") from None
    return dict(run)


def threshold(text: str) -> Threshold:
    """A gate."""
    try:
        return Threshold.of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def private_key_file(text: str) -> bytes:
    """The content of a private key's file."""
    try:
        pem = Path(text).read_bytes()
        private_key(pem)
    except OSError as error:
        raise argparse.ArgumentTypeError(f"can't read {text!r}: {error.strerror}") from None
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None
    return pem


def new_file(text: str) -> Path:
    """A file to write, in a folder that is there."""
    if not Path(text).parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {str(Path(text).parent)!r}")
    return Path(text)
