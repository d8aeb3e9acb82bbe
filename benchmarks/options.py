"""The command line of `python -m benchmarks.exchange`."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mcp_swarm.loadtest.arguments import duration, new_file, positive

from benchmarks.scenarios import SCENARIOS, WHOLE, Scenario, choose

STDOUT = "-"


@dataclass(frozen=True)
class Options:
    """What was asked for."""

    scenarios: list[Scenario]
    whole: set[str]
    """Names out of `scenarios.WHOLE`."""
    rounds: int
    seconds: float
    starts: int
    calls: int
    quick: bool
    check: bool
    log_level: str
    json: str | None
    """A file's path, `-` for stdout, or None."""
    markdown: str | None
    """Likewise."""
    html: str | None
    """A file's path, or None."""

    @property
    def takes_stdout(self) -> bool:
        """Whether stdout is for a machine to read."""
        return STDOUT in (self.json, self.markdown)


def parse(arguments: Sequence[str] | None) -> Options:
    """Read the command line; ends the process with 2 when it is wrong."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.json == given.markdown == STDOUT:
        parser.error("--json - and --markdown - both want stdout")
    try:
        scenarios, whole = choose([name.strip() for name in (given.only or "").split(",") if name.strip()])
    except ValueError as error:
        parser.error(f"--only: {error}")
    if given.expect is not None:
        other = {"result": {"content": [{"text": given.expect}]}}
        scenarios = [replace(scenario, expected=other) for scenario in scenarios]
    rounds, seconds, starts, calls = (1, 0.3, 1, 5_000) if given.quick else (5, 2.0, 5, 200_000)
    return Options(
        scenarios=scenarios,
        whole=whole,
        rounds=given.rounds or rounds,
        seconds=given.seconds or seconds,
        starts=starts,
        calls=calls,
        quick=given.quick,
        check=given.check,
        log_level=given.log_level,
        json=given.json,
        markdown=given.markdown,
        html=given.html,
    )


def _parser() -> argparse.ArgumentParser:
    names = ", ".join([*(scenario.name for scenario in SCENARIOS), *WHOLE])
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.exchange",
        description="Measure what POST /mcp costs: CPU time of the server's process per request, as a multiple of the "
        "floor's (a bare ASGI app with orjson under the same uvicorn), rate and latency with 32 and with 1 request in "
        "flight, memory and start-up time. Each server runs on a core of its own, with its access log on; the load "
        "comes from another core. Every reply is checked.",
        epilog=f"Names for --only: {names}. "
        "Exit codes: 0 measured; 1 a target was missed, with --check; 2 wrong arguments; "
        "3 a server did not start or gave a wrong reply. "
        "benchmarks/results.py documents what --json writes.",
    )
    parser.add_argument("--rounds", type=positive, metavar="N", help="rounds (default: 5; with --quick 1)")
    parser.add_argument(
        "--seconds", type=duration, metavar="S", help="seconds of each measurement (default: 2; with --quick 0.3)"
    )
    parser.add_argument("--only", metavar="NAME,…", help="only these; * stands for anything, as in 'echo*'")
    parser.add_argument("--quick", action="store_true", help="everything in less than a minute; the figures are rough")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a target is missed")
    parser.add_argument(
        "--log-level",
        default="INFO",
        choices=("DEBUG", "INFO", "WARNING", "ERROR"),
        help="of the servers; from WARNING on there is no access log (default: %(default)s)",
    )
    parser.add_argument("--json", type=_file, metavar="FILE", help="write the figures as JSON; - for stdout")
    parser.add_argument("--markdown", type=_file, metavar="FILE", help="write the tables as Markdown; - for stdout")
    parser.add_argument("--html", type=new_file, metavar="FILE", help="write a page with plots that needs no network")
    # For the tests: what each reply should say instead.
    parser.add_argument("--expect", help=argparse.SUPPRESS)
    return parser


def _file(text: str) -> str:
    return text if text == STDOUT else str(new_file(text))
