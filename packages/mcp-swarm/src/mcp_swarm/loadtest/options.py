"""The command line, read and checked."""

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp_swarm.loadtest import fields, thresholds
from mcp_swarm.loadtest.arguments import (
    duration,
    earlier_run,
    header,
    json_object,
    mix,
    new_file,
    policy,
    positive,
    private_key_file,
    ramp,
    rate,
    threshold,
)
from mcp_swarm.loadtest.message import Family
from mcp_swarm.loadtest.pace import Ramp, constant
from mcp_swarm.loadtest.run import LoadPolicy
from mcp_swarm.loadtest.signing import Signer
from mcp_swarm.loadtest.thresholds import Threshold

_CONCURRENT = 20
_CONCURRENT_OPEN = 100
_REQUESTS = 100
_KNEE = ("p99<200ms", "error_rate<1%")
_STAGE_SECONDS = 5.0
_FIRST_RATE = 50.0
_FAMILIES = {"legacy": (Family.LEGACY,), "modern": (Family.MODERN,), "mixed": (Family.LEGACY, Family.MODERN)}


@dataclass(frozen=True)
class Options:
    """What is to be done."""

    url: str
    requests: int | None
    seconds: float | None
    concurrent: int
    ramp: Ramp | None
    policy: LoadPolicy
    families: tuple[Family, ...]
    what: dict[str, Any]
    """What is called: {"tool": …, "args": …}, {"method": …, "args": …}, {"mix": […]}, {"session": True},
    {"sdk": True}; {}: echo."""
    headers: dict[str, str]
    signer: Signer | None
    warm_up: float
    patience: float
    processes: int
    expect_replicas: int
    thresholds: tuple[Threshold, ...]
    json: Path | None
    csv: Path | None
    html: Path | None
    find_max: bool
    """Whether to raise the rate, `ramp`'s, until a threshold breaks; `seconds` is a stage's."""
    compare: dict[str, Any] | None
    """Another run's figures."""


SCRIPT = "test_swarm_load.py"


def read(line: Sequence[str] | None = None, program: str = SCRIPT) -> Options:
    """Read the command line of `program`. If something is wrong with it, the process ends with 2 and a sentence."""
    parser = _parser(program)
    given = parser.parse_args(line)
    if given.rate and given.ramp:
        parser.error("--rate and --ramp say the same thing twice: give one of them")
    if given.find_max and (given.ramp or given.requests):
        parser.error("--find-max has a rate and an end of its own: leave out --ramp and --requests")
    _complete(given)
    try:
        what = _what(given)
        signer = _signer(given)
    except ValueError as error:
        parser.error(str(error))
    headers = dict(given.header)
    if given.token:
        headers["Authorization"] = f"Bearer {given.token}"
    return Options(
        url=given.url,
        requests=given.requests,
        seconds=given.duration,
        concurrent=given.concurrent or (_CONCURRENT_OPEN if given.ramp else _CONCURRENT),
        ramp=given.ramp,
        policy=given.connections,
        families=_FAMILIES[given.family],
        what=what,
        headers=headers,
        signer=signer,
        warm_up=given.warm_up,
        patience=given.timeout,
        processes=given.processes,
        expect_replicas=given.expect_replicas,
        thresholds=tuple(given.threshold),
        json=given.json,
        csv=given.csv,
        html=given.html,
        find_max=given.find_max,
        compare=given.compare,
    )


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description="Load an MCP server, count as a success only what is one (HTTP 2xx, no JSON-RPC error, no tool "
        "error, the right text), and tell how its replicas shared the work.",
        epilog="Exit codes: 0 every call succeeded, all expected replicas took part and every threshold held; 1 not "
        "so; 2 wrong arguments, or no server at the URL. Ctrl-C ends the run and prints the report of what ran.",
    )
    add = parser.add_argument
    add("--url", default="http://localhost:8150/mcp", help="the server's endpoint (default: %(default)s)")

    load = parser.add_argument_group("load")
    add = load.add_argument
    add(
        "--requests",
        type=positive,
        metavar="N",
        help=f"requests in all (default: {_REQUESTS} without --duration)",
    )
    add(
        "--duration",
        type=duration,
        metavar="TIME",
        help="how long, as 60s or 5m; what is in flight then is awaited",
    )
    add(
        "--concurrent",
        type=positive,
        metavar="N",
        help=f"callers, each with a connection of its own (default: {_CONCURRENT}; {_CONCURRENT_OPEN} with a rate)",
    )
    add(
        "--rate",
        type=rate,
        metavar="R",
        help="requests per second, as 500 or 500/s, whatever the replies do; latency counts from the scheduled send",
    )
    add(
        "--find-max",
        action="store_true",
        help="raise the rate from --rate (default: 50/s), --duration (default: 5s) each, until a threshold breaks "
        f"(default: {' and '.join(_KNEE)}), and print the knee".replace("%", "%%"),
    )
    add(
        "--ramp",
        type=ramp,
        metavar="A:B/TIME",
        help="a rate that changes steadily, as 0:1000/30s, then stays",
    )
    add(
        "--connections",
        type=policy,
        default="keepalive",
        metavar="HOW",
        help="keepalive, fresh (one for each request) or recycle:N (a new one after N requests); a balancer of "
        "connections, like Swarm's mesh, chooses a replica only for a new one (default: %(default)s)",
    )
    add(
        "--processes",
        type=positive,
        default=1,
        metavar="N",
        help="generators side by side (default: %(default)s)",
    )
    add(
        "--warm-up",
        type=duration,
        default=0.0,
        metavar="TIME",
        help="load first for so long, and don't count it",
    )
    add("--timeout", type=duration, default=30.0, metavar="TIME", help="for one request (default: 30s)")

    what = parser.add_argument_group(
        "what is called", f"Fields in --args differ from call to call: {fields.FIELDS_HELP}."
    )
    chosen = what.add_mutually_exclusive_group()
    add = chosen.add_argument
    add("--tool", metavar="NAME", help="a tool (default: echo, whose reply is checked)")
    add("--method", metavar="NAME", help="any method, as tools/list")
    add("--mix", type=mix, metavar="FILE", help='JSON: [{"weight": 3, "tool": "add", "args": {…}}, …]')
    add("--session", action="store_true", help="whole conversations: discover or initialize, list, three calls")
    add("--sdk", action="store_true", help="echo by the official SDK's client, to see what that costs")
    what.add_argument("--args", type=json_object, default={}, metavar="JSON", help="the tool's arguments, or params")
    what.add_argument(
        "--era",
        dest="family",
        choices=_FAMILIES,
        default="legacy",
        help="of the protocol: 2025-11-25, 2026-07-28, or both in turns (default: %(default)s)",
    )
    what.add_argument("--token", default=os.environ.get("MCP_TOKEN"), help="bearer token (default: $MCP_TOKEN)")
    what.add_argument(
        "--header",
        type=header,
        action="append",
        default=[],
        metavar="'NAME: VALUE'",
        help="sent with each request",
    )
    what.add_argument(
        "--sign-key",
        type=private_key_file,
        metavar="FILE",
        help="sign each request, with this Ed25519 private key (PEM; RFC 9421)",
    )
    what.add_argument("--sign-key-id", metavar="ID", help="under which the server has its public key")

    result = parser.add_argument_group("result")
    add = result.add_argument
    add(
        "--expect-replicas",
        type=positive,
        default=3,
        metavar="N",
        help="replicas that must take part (default: %(default)s)",
    )
    add(
        "--threshold",
        type=threshold,
        action="append",
        default=[],
        metavar="'p99<200ms'",
        help=f"what must hold, any number of times; of {thresholds.HELP}".replace("%", "%%"),
    )
    add("--json", type=new_file, metavar="FILE", help="write the figures, after loadtest/report/schema.json")
    add(
        "--compare",
        type=earlier_run,
        metavar="OLD.json",
        help="say what changed since, and whether it is more than noise",
    )
    add("--html", type=new_file, metavar="FILE", help="write one page with charts, which needs nothing else")
    add("--csv", type=new_file, metavar="FILE", help="write every request")
    return parser


def _complete(given: argparse.Namespace) -> None:
    """Fill in what follows from what was given."""
    if given.find_max:
        given.rate = given.rate or _FIRST_RATE
        given.duration = given.duration or _STAGE_SECONDS
        given.threshold = given.threshold or [Threshold.of(text) for text in _KNEE]
    if given.rate:
        given.ramp = constant(given.rate)
    if given.requests is None and given.duration is None:
        if given.ramp is not None and given.ramp.seconds:
            given.duration = given.ramp.seconds
        else:
            given.requests = _REQUESTS


def _signer(given: argparse.Namespace) -> Signer | None:
    if (given.sign_key is None) != (given.sign_key_id is None):
        raise ValueError("--sign-key and --sign-key-id belong together: give both")
    if given.sign_key is None:
        return None
    signer = Signer(given.sign_key_id, given.sign_key)
    try:
        signer.lines(given.url)(b"")
    except ValueError as error:
        raise ValueError(f"--sign-key-id or --url: {error}") from None
    return signer


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
    if given.sdk:
        if given.connections != "keepalive":
            raise ValueError("--connections is not for --sdk, whose client has connections of its own")
        return {"sdk": True}
    return {"session": True} if given.session else {}
