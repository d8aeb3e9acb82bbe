"""The same echo on this template, the official SDKs and stock FastMCP: what a call costs each of them.

python -m benchmarks.peers --html peers.html
"""

import argparse
import sys

from mcp_swarm.loadtest.arguments import duration

from benchmarks.peer.findings import findings
from benchmarks.peer.measure import measure, steps
from benchmarks.peer.servers import SERVERS, Server, choose
from benchmarks.study.command import Run, Script, main
from benchmarks.study.study import Findings


def _measure(run: Run) -> Findings:
    given = run.given
    seconds = given.seconds or (0.15 if given.quick else 1.0)
    measured = measure(
        run,
        given.only,
        seconds=seconds,
        warm_up=0.3 if given.quick else 3.0,
        build=given.build or not given.quick,
    )
    return findings(measured, quick=given.quick)


def _options(parser: argparse.ArgumentParser) -> None:
    names = ", ".join(server.name for server in SERVERS)
    parser.add_argument(
        "--only",
        type=_servers,
        default=list(SERVERS),
        metavar="NAME,…",
        help=f"only these, and the floor: {names}",
    )
    parser.add_argument(
        "--build",
        action="store_true",
        help="build the peers that aren't yet; without --quick that is done anyway, where the toolchain is",
    )
    parser.add_argument(
        "--seconds", type=duration, metavar="S", help="seconds of each measurement (default: 1; with --quick 0.15)"
    )


def _servers(text: str) -> list[Server]:
    try:
        return choose(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


SCRIPT = Script(
    name="peers",
    title="The same echo on other SDKs",
    claim="A Python template can cost less per call than the official Go SDK.",
    description="Calls the same echo tool, stateless and with JSON replies, on this template, on servers of the "
    "official Rust, Go and TypeScript SDKs, on FastMCP as it comes, and on a bare floor; each a process on one core, "
    "with 32 calls in flight and with one, in both protocol families where the SDK knows them. Takes five minutes. The "
    "peers are built on the first run, with cargo, go and npm, which takes minutes more and isn't measured: into "
    "$XDG_CACHE_HOME/mcp-swarm/peers (~/.cache/mcp-swarm/peers). One whose toolchain is missing is skipped.",
    rounds=(1, 5),
    steps=lambda given, rounds: steps(given.only, rounds),
    measure=_measure,
    options=_options,
)

if __name__ == "__main__":
    sys.exit(main(SCRIPT))
