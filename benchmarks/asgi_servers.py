"""The template's app under uvicorn, hypercorn and granian: HTTP/1.1 and HTTP/2, with TLS and without.

python -m benchmarks.asgi_servers --json servers.json --html servers.html
"""

import argparse
import importlib.util
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path

from mcp_swarm.loadtest.arguments import duration

from benchmarks.asgi import h2load
from benchmarks.asgi.calls import CALLS, Calls
from benchmarks.asgi.h2load import Loaded
from benchmarks.asgi.variants import SERVERS, VARIANTS, Variant
from benchmarks.load import LoadError
from benchmarks.process import Process, ProcessError
from benchmarks.study.command import Missing, Run, Script, main, some_of
from benchmarks.study.study import Column, Findings, Row, Table, row_of
from benchmarks.study.turns import turns

_PACK = "benchmarks.packs.offers"
_WARM_UP = 0.2
_PATIENCE = 5.0
_PUBLISHED = "Published elsewhere, of another machine and app, for comparison: uvicorn 38.3 requests/s, hypercorn 33.1."
_QUICK_TLS = ("template", "hypercorn-h2", "granian-h2")
"""Those that a quick run tries over TLS: most of its time are the starts."""

_OVERVIEW = [
    Column("cpu", "CPU per call", "µs", "less", drawn=True),
    Column("rate", "calls", "/s", "more", drawn=True),
    Column("p99", "p99", "ms", "less"),
    Column("one", "of one client", "/s", "more", drawn=True),
    Column("tls", "over TLS", "/s", "more", drawn=True),
    Column("rss", "memory", "MB", "less"),
]
_COLUMNS = [
    Column("rate", "requests", "/s", "more", drawn=True),
    Column("cpu", "CPU", "µs", "less", drawn=True),
    Column("mean", "mean", "ms", "less"),
    Column("p50", "p50", "ms", "less"),
    Column("p95", "p95", "ms", "less"),
    Column("p99", "p99", "ms", "less"),
    Column("errors", "errors", "%", "less"),
    Column("bytes", "bytes received", "", "less"),
]


class Served:
    """One variant, with or without TLS, and what was measured of it so far."""

    def __init__(self, variant: Variant, process: Process, *, tls: bool) -> None:
        self.variant, self.process, self.tls = variant, process, tls
        self.failure = ""
        self.rss = 0.0
        self.figures: dict[str, dict[str, list[float]]] = {}
        """Of each scenario: values by column, one a round."""

    @property
    def url(self) -> str:
        """Where it is reached."""
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.process.port}/mcp"

    def measure(self, run: Run, calls: Calls) -> None:
        """Measure one scenario of one round; a failure is noted."""
        if self.failure:
            return
        try:
            length = calls.check(self.url, http2=self.variant.http2)
            self._load(run, calls, _WARM_UP if self.tls or not run.given.quick else 0.05)
            loaded, cpu = self._load(run, calls, run.given.seconds or (0.2 if run.given.quick else 2.0))
            # What came of replies that were cut off, at the end or by an error, counts in the bytes only.
            cut = calls.clients + loaded.requests - loaded.good
            if not 0.98 * length <= loaded.body_bytes <= length * (1.02 + cut / loaded.good):
                raise LoadError(f"replies of {loaded.body_bytes:,.0f} bytes, not {length:,}")
        except (ValueError, LoadError, OSError) as error:
            self.failure = f"{calls.title}: {self.process.end or error}"
            return
        self.rss = self.process.rss_mb()
        found = self.figures.setdefault(calls.name, defaultdict(list))
        for column, value in _values(loaded, cpu).items():
            found[column].append(value)

    def _load(self, run: Run, calls: Calls, seconds: float) -> tuple[Loaded, float]:
        """What came of a run, and the server's CPU time for it."""
        http2, core = self.variant.http2, run.machine.load_core
        while True:  # a busy machine may need longer for the first reply than a quick run measures
            cpu = self.process.cpu_seconds()
            try:
                loaded = h2load.run(calls, self.url, http2=http2, seconds=seconds, core=core, folder=run.folder)
                return loaded, self.process.cpu_seconds() - cpu
            except h2load.TooShort:
                if seconds > _PATIENCE:
                    raise
                seconds *= 4


def _values(loaded: Loaded, cpu: float) -> dict[str, float]:
    errors = {} if loaded.errors is None else {"errors": loaded.errors}
    return errors | {
        "rate": loaded.good / loaded.seconds,
        "cpu": 1e6 * cpu / loaded.good,
        "mean": loaded.mean,
        "p50": loaded.p50,
        "p95": loaded.p95,
        "p99": loaded.p99,
        "bytes": loaded.wire_bytes,
    }


def _measure(run: Run) -> Findings:
    packages = {"h2load": "nghttp2-client", "openssl": "openssl", "curl": "curl", "taskset": "util-linux"}
    for program, package in packages.items():
        if shutil.which(program) is None:
            raise Missing(f"{program} is not installed: apt-get install {package}")
    files = _certificate(run.folder)
    cases = _cases(run.given)
    with ExitStack() as stack:
        run.step(f"start {len(cases)} servers")
        servers = [_start(run, stack, variant, files if tls else [], tls=tls) for variant, tls in cases]
        for served in servers:
            try:
                served.process.wait_ready()
                served.process.pin(run.machine.server_core)  # on all cores they start in half the time
            except ProcessError as error:
                served.failure = str(error)
        pairs = [(served, calls) for calls in CALLS for served in servers if served.tls == calls.tls]
        for number, (served, calls) in turns(pairs, run.rounds):
            run.step(f"round {number} of {run.rounds}: {served.variant.title}: {calls.title}")
            served.measure(run, calls)
    return _findings(run.given.only, servers)


def _cases(given: argparse.Namespace) -> list[tuple[Variant, bool]]:
    """The variants that can be tried, without TLS and with it."""
    there = [variant for variant in given.only if not variant.missing]
    return [
        *((variant, False) for variant in there),
        *((variant, True) for variant in there if variant.name in _QUICK_TLS or not given.quick),
    ]


def _start(run: Run, stack: ExitStack, variant: Variant, files: list[str], *, tls: bool) -> Served:
    process = Secured if tls else Process
    settings = {"MCP_COMPONENTS": _PACK, "MAX_REQUESTS_PER_CONNECTION": "0", "MAX_CONNECTION_AGE_SECONDS": "0"}
    serving = process("benchmarks.asgi.serve", variant.name, *files, core=None, folder=run.folder, **settings)
    return Served(variant, stack.enter_context(serving), tls=tls)


class Secured(Process):
    """A process that serves TLS."""

    def is_ready(self) -> bool:
        """Whether `/readyz` says 200 over TLS."""
        asked = ["curl", "-ksf", "-m", "2", "-o", "/dev/null", f"https://127.0.0.1:{self.port}/readyz"]
        return subprocess.run(asked, check=False).returncode == 0


def _certificate(folder: Path) -> list[str]:
    certificate, key = str(folder / "certificate.pem"), str(folder / "key.pem")
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    made += ["-days", "2", "-subj", "/CN=localhost", "-keyout", key, "-out", certificate]
    subprocess.run(made, check=True, capture_output=True)
    return [certificate, key]


def _findings(variants: Sequence[Variant], servers: list[Served]) -> Findings:
    overview = Table("servers", "The servers at a glance", _OVERVIEW, [_row(each, servers) for each in variants])
    details = [
        Table(calls.name, calls.title, _COLUMNS, [_row(each, servers, calls) for each in variants]) for calls in CALLS
    ]
    versions = {name: version(name) for name in (*SERVERS, "httptools", "h11", "h2") if _installed(name)}
    return Findings([overview, *details], *_words(overview), versions=versions)


def _row(variant: Variant, servers: list[Served], calls: Calls | None = None) -> Row:
    """A variant's figures in one scenario, or at a glance."""
    if variant.missing:
        return Row(variant.name, variant.title, skipped=variant.missing)
    by_tls = {each.tls: each for each in servers if each.variant is variant}
    if calls:
        if calls.tls not in by_tls:
            return Row(variant.name, variant.title, skipped="only without --quick")
        served = by_tls[calls.tls]
        return row_of(variant.name, variant.title, served.figures.get(calls.name, {}), served.failure)
    plain = by_tls[False]
    call, one = (plain.figures.get(name, {}) for name in ("call", "one"))
    tls = by_tls[True].figures.get("call-tls", {}) if True in by_tls else {}
    figures = {name: call.get(name, []) for name in ("cpu", "rate", "p99")}
    figures |= {"one": one.get("rate", []), "tls": tls.get("rate", []), "rss": [plain.rss] if plain.rss else []}
    failures = dict.fromkeys(served.failure for served in by_tls.values() if served.failure)
    return row_of(variant.name, variant.title, figures, "; ".join(failures))


def _installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def _words(table: Table) -> tuple[str, str]:
    """One sentence and a paragraph on what the figures say."""
    whole = [row for row in table.rows if "cpu" in row.figures and not row.failure]
    by_cost = sorted(whole, key=lambda row: row.figures["cpu"].median)
    if not by_cost:
        return "Nothing could be measured.", "Nothing could be measured."
    cheapest, ours = by_cost[0], next((row for row in by_cost if row.name == "template"), by_cost[0])
    least, own = cheapest.figures["cpu"].median, ours.figures["cpu"].median
    if cheapest is ours:
        others = (
            f"; the next is {by_cost[1].title} with {by_cost[1].figures['cpu'].median / own:.1f} times that"
            if by_cost[1:]
            else ""
        )
        sentence = f"A call costs the least CPU under {ours.title}, {own:.0f} µs{others}."
    else:
        sentence = f"A call costs {least:.0f} µs of CPU under {cheapest.title}, and {own:.0f} under {ours.title}."
    parts = [sentence]
    for plain, http2 in (("hypercorn", "hypercorn-h2"), ("granian", "granian-h2")):
        one, two = table.median(plain, "one"), table.median(http2, "one")
        if one and two and {plain, http2} <= {row.name for row in whole}:
            more = f"{two / one:.2f} times the calls of 16 connections of HTTP/1.1"
            parts.append(f"One client with 16 calls at once over a single HTTP/2 connection gets {more} under {plain}.")
    both = table.median("template", "rate"), table.median("template", "tls")
    if both[0] and both[1]:
        parts.append(
            f"TLS in the server leaves {100 * both[1] / both[0]:.0f} % of the rate under {ours.title}; "
            "the edge proxy can do it instead."
        )
    parts.append(_PUBLISHED)
    parts.append(
        "The others do not have what the template adds to uvicorn: limits of connections, heads and time, and "
        "connections that end in good order so that their clients come to another replica. All of it is one process on "
        "one core (granian has threads of its own beside Python's); the load is h2load on another."
    )
    return sentence, " ".join(parts)


def _steps(given: argparse.Namespace, rounds: int) -> int:
    return 1 + rounds * sum(calls.tls == tls for _, tls in _cases(given) for calls in CALLS)


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--only",
        type=some_of(VARIANTS),
        default=VARIANTS,
        metavar="NAME,…",
        help=f"only these: {', '.join(each.name for each in VARIANTS)}",
    )
    parser.add_argument(
        "--seconds", type=duration, metavar="S", help="of each measurement (default: 2; with --quick 0.2)"
    )


SCRIPT = Script(
    name="asgi_servers",
    title="ASGI servers",
    claim="uvicorn, as the template runs it, is the right server.",
    description="Serves the same components under uvicorn, hypercorn and granian, over HTTP/1.1 and HTTP/2, and "
    "measures with h2load: plain calls, many calls of one client at once, a call with many tasks, a resource, and "
    "calls over TLS. ASGI_SERVER makes the template run under another.",
    rounds=(1, 5),
    steps=_steps,
    measure=_measure,
    options=_options,
)


if __name__ == "__main__":
    sys.exit(main(SCRIPT))
