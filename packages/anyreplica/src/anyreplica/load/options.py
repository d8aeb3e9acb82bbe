"""The command line of the load test: its options, their checks and their defaults."""

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyreplica.load import scenario, thresholds
from anyreplica.load.arguments import (
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
from anyreplica.load.message import Family, Signer
from anyreplica.load.run import LoadPolicy, Ramp, constant
from anyreplica.load.thresholds import Threshold

_CONCURRENT = 20
_CONCURRENT_OPEN = 100
_REQUESTS = 100

_RATE, _SECONDS = 100.0, 10.0
"""Requests per second and seconds of a run without options about the load. This is long enough for the charts."""
_KNEE = ("p99<200ms", "error_rate<1%")
_STAGE_SECONDS = 5.0
_FIRST_RATE = 50.0
_FAMILIES = {"legacy": (Family.LEGACY,), "modern": (Family.MODERN,), "mixed": (Family.LEGACY, Family.MODERN)}


@dataclass(frozen=True)
class Options:
    """The options of a run, checked and complete."""

    url: str
    requests: int | None
    seconds: float | None
    concurrent: int
    ramp: Ramp | None
    policy: LoadPolicy
    families: tuple[Family, ...]
    what: dict[str, Any]
    """The requests: {"tool": …, "args": …}, {"method": …, "args": …}, {"mix": […]}, {"session": True} or
    {"sdk": True}; {} stands for calls of the tool echo."""
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
    """Whether to raise the rate of `ramp` until a threshold breaks; `seconds` is the length of one stage."""
    compare: dict[str, Any] | None
    """The JSON report of an earlier run."""


SCRIPT = "test_swarm_load.py"


def read(line: Sequence[str] | None = None, program: str = SCRIPT) -> Options:
    """Read the command line of `program`. If an argument is wrong, print an error and exit with code 2."""
    parser = _parser(program)
    given = parser.parse_args(line)
    if given.rate and given.ramp:
        parser.error("--rate and --ramp both set the rate: give one of them")
    if given.find_max and (given.ramp or given.requests):
        parser.error("--find-max sets its own rates and ends by itself: leave out --ramp and --requests")
    if given.find_max and (low := [each.text for each in given.threshold if each.is_lower_throughput]):
        parser.error(f"--find-max starts with low rates, which break --threshold '{low[0]}': leave it out")
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
        description="""\
Send requests to an MCP server. Report throughput, latencies, failures and how
the replicas shared the requests. A request is successful if the reply has an
HTTP 2xx status, no JSON-RPC error, no tool error and the right text.""",
        epilog=f"""\
examples:
  {program} --requests 10000 --concurrent 50
  {program} --rate 500 --duration 60s --threshold 'p99<200ms' \\
    --html report.html
  {program} --find-max
  {program} --tool add --args '{{"a": "{{i}}", "b": 1}}' \\
    --url https://mcp.example.com/mcp

exit codes:
  0    every request succeeded, all expected replicas took part, and no
       threshold broke
  1    a request failed, a replica is missing, the shares are uneven, or a
       threshold broke
  2    wrong arguments, no server at the URL, or an output file can't be written
  130  Ctrl-C; the report shows the requests until then
""",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    place = f"http://localhost:{os.environ.get('PORT') or '8150'}/mcp"
    add("--url", default=place, help="URL of the MCP endpoint (default: http://localhost:8150/mcp; PORT sets its port)")

    load = parser.add_argument_group("load")
    add = load.add_argument
    add(
        "--requests",
        type=positive,
        metavar="N",
        help=f"total number of requests, or of conversations with --session (default: {_REQUESTS}, or no limit with "
        f"--duration); if no option sets the load, the test sends {_RATE:g} requests per second for {_SECONDS:g}s",
    )
    add(
        "--duration",
        type=duration,
        metavar="TIME",
        help="how long to send requests, such as 60s or 5m; the run then waits for the requests in flight",
    )
    add(
        "--concurrent",
        type=positive,
        metavar="N",
        help="number of parallel clients, each with its own connection "
        f"(default: {_CONCURRENT}; {_CONCURRENT_OPEN} with a rate)",
    )
    add(
        "--rate",
        type=rate,
        metavar="R",
        help="send this many requests per second, such as 500 or 500/s, even if replies are slow; a request's latency "
        "counts from its scheduled time",
    )
    add(
        "--find-max",
        action="store_true",
        help="search for the highest rate that the server sustains: raise the rate from --rate "
        f"(default: {_FIRST_RATE:g}/s) until a threshold breaks (default: {' and '.join(_KNEE)}); each rate runs for "
        f"--duration (default: {_STAGE_SECONDS:g}s)".replace("%", "%%"),
    )
    add(
        "--ramp",
        type=ramp,
        metavar="A:B/TIME",
        help="change the rate steadily from A to B requests per second within TIME, such as 0:1000/30s, then keep B",
    )
    add(
        "--connections",
        type=policy,
        default="keepalive",
        metavar="HOW",
        help="keepalive (keep the connection), fresh (a new connection for each request) or recycle:N (a new "
        "connection after N requests); a balancer of connections, like Swarm's mesh, chooses a replica only for a new "
        "connection (default: %(default)s)",
    )
    add(
        "--processes",
        type=positive,
        default=1,
        metavar="N",
        help="number of processes that generate load (default: %(default)s)",
    )
    add(
        "--warm-up",
        type=duration,
        default=0.0,
        metavar="TIME",
        help="send requests for this time before the measurement starts",
    )
    add(
        "--timeout",
        type=duration,
        default=30.0,
        metavar="TIME",
        help="time limit for one request; a slower request counts as failed (default: 30s)",
    )

    what = parser.add_argument_group(
        "requests", f"Placeholders in --args get a new value in each request:\n{scenario.FIELDS_HELP}"
    )
    chosen = what.add_mutually_exclusive_group()
    add = chosen.add_argument
    add("--tool", metavar="NAME", help="call this tool (default: echo, with a check of the reply's text)")
    add("--method", metavar="NAME", help="send this JSON-RPC method, such as tools/list")
    add(
        "--mix",
        type=mix,
        metavar="FILE",
        help='send a mix of requests, from a JSON file: [{"weight": 3, "tool": "add", "args": {…}}, …]',
    )
    add(
        "--session",
        action="store_true",
        help="send whole conversations: server/discover or initialize, tools/list, three calls of echo",
    )
    add("--sdk", action="store_true", help="call echo with the client of the MCP SDK, to measure the client's cost")
    what.add_argument(
        "--args",
        type=json_object,
        default={},
        metavar="JSON",
        help="arguments of the tool, or params of the method",
    )
    what.add_argument(
        "--protocol",
        dest="family",
        choices=_FAMILIES,
        default="legacy",
        help="protocol version: legacy (2025-11-25), modern (2026-07-28), or mixed, which alternates between both "
        "(default: %(default)s)",
    )
    # The former name of --protocol.
    what.add_argument("--era", dest="family", choices=_FAMILIES, default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    what.add_argument(
        "--token",
        default=os.environ.get("MCP_TOKEN"),
        metavar="TOKEN",
        help="bearer token (default: the environment variable MCP_TOKEN)",
    )
    what.add_argument(
        "--header",
        type=header,
        action="append",
        default=[],
        metavar="'NAME: VALUE'",
        help="add this header to each request; repeatable",
    )
    what.add_argument(
        "--sign-key",
        type=private_key_file,
        metavar="FILE",
        help="sign each request with this Ed25519 private key (PEM; RFC 9421); needs --sign-key-id",
    )
    what.add_argument("--sign-key-id", metavar="ID", help="id of the public key on the server")

    result = parser.add_argument_group("result")
    add = result.add_argument
    add(
        "--expect-replicas",
        type=positive,
        default=3,
        metavar="N",
        help="number of replicas that must answer at least one request (default: %(default)s)",
    )
    add(
        "--threshold",
        type=threshold,
        action="append",
        default=[],
        metavar="'p99<200ms'",
        help=f"a condition that the result must meet; repeatable; metrics: {thresholds.HELP}".replace("%", "%%"),
    )
    add("--json", type=new_file, metavar="FILE", help="write the result as JSON (load/report/schema.json)")
    add(
        "--compare",
        type=earlier_run,
        metavar="OLD.json",
        help="compare the result with an earlier --json file, and separate changes from noise",
    )
    add("--html", type=new_file, metavar="FILE", help="write a self-contained HTML page with charts")
    add("--csv", type=new_file, metavar="FILE", help="write one line for each request")
    return parser


def _complete(given: argparse.Namespace) -> None:
    """Set the defaults that depend on other options."""
    if given.find_max:
        given.rate = given.rate or _FIRST_RATE
        given.duration = given.duration or _STAGE_SECONDS
        given.threshold = given.threshold or [Threshold.of(text) for text in _KNEE]
    if given.rate:
        given.ramp = constant(given.rate)
    if given.requests is None and given.duration is None:
        if given.ramp is not None and given.ramp.seconds:
            given.duration = given.ramp.seconds
        elif given.ramp is None and given.concurrent is None and not given.session and not given.sdk:
            given.ramp, given.duration = constant(_RATE), _SECONDS
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
        raise ValueError("--args needs --tool or --method")
    scenario.maker(given.args)
    if given.tool:
        return {"tool": given.tool, "args": given.args}
    if given.method:
        return {"method": given.method, "args": given.args}
    if given.mix is not None:
        return {"mix": given.mix}
    if given.sdk:
        if given.connections != "keepalive":
            raise ValueError("--connections has no effect with --sdk: the SDK's client manages its own connections")
        return {"sdk": True}
    return {"session": True} if given.session else {}
