"""The command line, read and checked."""

import argparse
import json
import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadtest import fields, thresholds
from loadtest.callers import Policy
from loadtest.compare import compare
from loadtest.message import Era
from loadtest.pace import Ramp, constant
from loadtest.thresholds import Threshold

_CONCURRENT = 20
_CONCURRENT_OPEN = 100
_REQUESTS = 100
_ERAS = {"legacy": (Era.LEGACY,), "modern": (Era.MODERN,), "mixed": (Era.LEGACY, Era.MODERN)}


@dataclass(frozen=True)
class Options:
    """What is to be done."""

    url: str
    requests: int | None
    seconds: float | None
    concurrent: int
    ramp: Ramp | None
    policy: Policy
    eras: tuple[Era, ...]
    what: dict[str, Any]
    """What is called: {"tool": …, "args": …}, {"method": …, "args": …}, {"mix": […]}, {"session": True}; {}: echo."""
    headers: dict[str, str]
    warm_up: float
    patience: float
    processes: int
    expect_replicas: int
    thresholds: tuple[Threshold, ...]
    json: Path | None
    csv: Path | None
    html: Path | None
    compare: dict[str, Any] | None
    """Another run's figures."""


def read(arguments: Sequence[str] | None = None) -> Options:
    """Read a command line; ends the process with 2 and a sentence if something is wrong with it."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.rate and given.ramp:
        parser.error("--rate and --ramp say the same thing twice: give one of them")
    ramp = given.ramp or (constant(given.rate) if given.rate else None)
    requests = given.requests
    if requests is None and given.duration is None:
        if ramp is not None and ramp.seconds:
            given.duration = ramp.seconds
        else:
            requests = _REQUESTS
    try:
        what = _what(given)
    except ValueError as error:
        parser.error(str(error))
    headers = dict(given.header)
    if given.token:
        headers["Authorization"] = f"Bearer {given.token}"
    return Options(
        url=given.url,
        requests=requests,
        seconds=given.duration,
        concurrent=given.concurrent or (_CONCURRENT_OPEN if ramp else _CONCURRENT),
        ramp=ramp,
        policy=given.connections,
        eras=_ERAS[given.era],
        what=what,
        headers=headers,
        warm_up=given.warm_up,
        patience=given.timeout,
        processes=given.processes,
        expect_replicas=given.expect_replicas,
        thresholds=tuple(given.threshold),
        json=given.json,
        csv=given.csv,
        html=given.html,
        compare=given.compare,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="test_swarm_load.py",
        description="Load an MCP server, count as a success only what is one (HTTP 2xx, no JSON-RPC error, no tool "
        "error, the right text), and tell how its replicas shared the work.",
        epilog="Exit codes: 0 every call succeeded, all expected replicas took part and every threshold held; 1 not "
        "so; 2 wrong arguments, or no server at the URL. Ctrl-C ends the run and prints the report of what ran.",
    )
    add = parser.add_argument
    add("--url", default="http://localhost:8150/mcp", help="the server's endpoint (default: %(default)s)")

    load = parser.add_argument_group("load")
    add = load.add_argument
    add("--requests", type=_positive, metavar="N", help=f"requests in all (default: {_REQUESTS} without --duration)")
    add("--duration", type=_duration, metavar="TIME", help="how long, as 60s or 5m; what is in flight then is awaited")
    add(
        "--concurrent",
        type=_positive,
        metavar="N",
        help=f"callers, each with a connection of its own (default: {_CONCURRENT}; {_CONCURRENT_OPEN} with a rate)",
    )
    add(
        "--rate",
        type=_rate,
        metavar="R",
        help="requests per second, as 500 or 500/s, whatever the replies do; latency counts from the scheduled send",
    )
    add("--ramp", type=_ramp, metavar="A:B/TIME", help="a rate that changes steadily, as 0:1000/30s, then stays")
    add(
        "--connections",
        type=_policy,
        default="keepalive",
        metavar="HOW",
        help="keepalive, fresh (one for each request) or recycle:N (a new one after N requests); a balancer of "
        "connections, like Swarm's mesh, chooses a replica only for a new one (default: %(default)s)",
    )
    add("--processes", type=_positive, default=1, metavar="N", help="generators side by side (default: %(default)s)")
    add("--warm-up", type=_duration, default=0.0, metavar="TIME", help="load first for so long, and don't count it")
    add("--timeout", type=_duration, default=30.0, metavar="TIME", help="for one request (default: 30s)")

    what = parser.add_argument_group("what is called", f"Fields in --args differ from call to call: {fields.HELP}.")
    chosen = what.add_mutually_exclusive_group()
    add = chosen.add_argument
    add("--tool", metavar="NAME", help="a tool (default: echo, whose reply is checked)")
    add("--method", metavar="NAME", help="any method, as tools/list")
    add("--mix", type=_json_file, metavar="FILE", help='JSON: [{"weight": 3, "tool": "add", "args": {…}}, …]')
    add("--session", action="store_true", help="whole conversations: discover or initialize, list, three calls")
    what.add_argument("--args", type=_json_object, default={}, metavar="JSON", help="the tool's arguments, or params")
    what.add_argument(
        "--era",
        choices=_ERAS,
        default="legacy",
        help="of the protocol: 2025-11-25, 2026-07-28, or both in turns (default: %(default)s)",
    )
    what.add_argument("--token", default=os.environ.get("MCP_TOKEN"), help="bearer token (default: $MCP_TOKEN)")
    what.add_argument(
        "--header", type=_header, action="append", default=[], metavar="'NAME: VALUE'", help="sent with each request"
    )

    result = parser.add_argument_group("result")
    add = result.add_argument
    add(
        "--expect-replicas",
        type=_positive,
        default=3,
        metavar="N",
        help="replicas that must take part (default: %(default)s)",
    )
    add(
        "--threshold",
        type=_threshold,
        action="append",
        default=[],
        metavar="'p99<200ms'",
        help=f"what must hold, any number of times; of {thresholds.HELP}".replace("%", "%%"),
    )
    add("--json", type=_file, metavar="FILE", help="write the figures, after loadtest/report/schema.json")
    add("--compare", type=_run, metavar="OLD.json", help="say what changed since, and whether it is more than noise")
    add("--html", type=_file, metavar="FILE", help="write one page with charts, which needs nothing else")
    add("--csv", type=_file, metavar="FILE", help="write every request")
    return parser


def _what(given: argparse.Namespace) -> dict[str, Any]:
    if given.args and not (given.tool or given.method):
        raise ValueError("--args are for --tool or --method")
    fields.maker(given.args)
    if given.tool:
        return {"tool": given.tool, "args": given.args}
    if given.method:
        return {"method": given.method, "args": given.args}
    if given.mix is not None:
        return {"mix": given.mix}
    return {"session": True} if given.session else {}


def _positive(text: str) -> int:
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


def _duration(text: str) -> float:
    match = re.fullmatch(r"([\d.]+)(ms|s|m|h)?", text)
    seconds = _number(match[1]) * {"ms": 0.001, "m": 60, "h": 3600}.get(match[2], 1) if match else 0.0
    if not seconds:
        raise argparse.ArgumentTypeError(f"{text!r} is no time above 0; it looks like 500ms, 30s or 5m")
    return seconds


def _rate(text: str) -> float:
    rate = _number(text.removesuffix("/s"))
    if not rate:
        raise argparse.ArgumentTypeError(f"{text!r} is no rate above 0; it looks like 500/s")
    return rate


def _ramp(text: str) -> Ramp:
    match = re.fullmatch(r"([\d.]+):([\d.]+)/(.+)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no ramp; it looks like 0:1000/30s")
    ramp = Ramp(_number(match[1]), _number(match[2]), _duration(match[3]))
    if ramp.first == ramp.last == 0:
        raise argparse.ArgumentTypeError(f"{text!r} sends nothing")
    return ramp


def _policy(text: str) -> Policy:
    if text == "keepalive":
        return "keepalive"
    if text == "fresh":
        return "fresh"
    match = re.fullmatch(r"recycle:([1-9]\d*)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is none of keepalive, fresh, recycle:N")
    return int(match[1])


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) or not value.strip().isprintable():
        raise argparse.ArgumentTypeError(f"{text!r} is no header; it looks like 'X-Tenant: blue'")
    return name, value.strip()


def _json_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"{text!r} is no JSON object")
    return value


def _json_file(text: str) -> list[dict[str, Any]]:
    try:
        value = json.loads(Path(text).read_text())
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"can't read {text!r} as JSON: {error}") from None
    if not (isinstance(value, list) and value and all(isinstance(each, dict) for each in value)):
        raise argparse.ArgumentTypeError(f'{text!r} is no list like [{{"weight": 3, "tool": "add", "args": {{}}}}]')
    return value


def _run(text: str) -> dict[str, Any]:
    try:
        run = json.loads(Path(text).read_text())
        compare(run, run)
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"can't read {text!r} as JSON: {error}") from None
    except (KeyError, TypeError):
        raise argparse.ArgumentTypeError(f"{text!r} is no run that --json wrote") from None
    return dict(run)


def _threshold(text: str) -> Threshold:
    try:
        return Threshold.of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _file(text: str) -> Path:
    if not Path(text).parent.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {str(Path(text).parent)!r}")
    return Path(text)
