"""One run of h2load, which speaks HTTP/1.1 and HTTP/2, with and without TLS, and is in no way Python's."""

import re
import statistics
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from mcp_swarm.loadtest.latency import percentile

from benchmarks.asgi.calls import HEADERS, Calls
from benchmarks.load import LoadError

_DATA = re.compile(r"traffic: .*\((\d+)\) data")
_TOTAL = re.compile(r"traffic: [^(]*\((\d+)\) total")


class TooShort(LoadError):
    """Not one reply came in the time."""


@dataclass(frozen=True)
class Loaded:
    """What came of it; times in ms."""

    requests: int
    good: int
    """With a 2xx."""
    errors: float | None
    """The others, in percent; None if it read no status: it can't of a line without words, which hypercorn writes."""
    seconds: float
    mean: float
    p50: float
    p95: float
    p99: float
    wire_bytes: float
    """Bytes that came for each good reply, heads and framing among them."""
    body_bytes: float
    """Likewise, without these."""


def run(calls: Calls, url: str, *, http2: bool, seconds: float, core: int, folder: Path) -> Loaded:
    """Send for so long.

    Args:
        core: the CPU core that it runs on.
        folder: for the request's body and the log.

    Raises:
        TooShort: no reply came in this time.
        LoadError: it failed, or got no good reply.
    """
    body, log = folder / f"{calls.name}.json", folder / "h2load.log"
    body.write_bytes(calls.body)
    log.unlink(missing_ok=True)
    connections, streams = (1, calls.clients) if calls.one_client and http2 else (calls.clients, 1)
    command = ["taskset", "-c", str(core), "h2load", "-t1", f"-c{connections}", f"-m{streams}"]
    command += [f"-D{max(1, round(seconds * 1000))}ms", f"-d{body}", f"--log-file={log}", *([] if http2 else ["--h1"])]
    command += [f"-H{name}: {value}" for name, value in HEADERS.items()]
    try:
        done = subprocess.run([*command, url], capture_output=True, text=True, check=False, timeout=seconds + 10)
    except subprocess.TimeoutExpired as error:  # it waits on when its time is over before TLS is agreed on
        raise TooShort(f"h2load did not end {seconds + 10:g} s after its start") from error
    data, total = _DATA.search(done.stdout), _TOTAL.search(done.stdout)
    rows = [line.split("\t") for line in log.read_text().splitlines()] if log.exists() else []
    told = any(row[1] != "0" for row in rows)
    good = sorted(int(row[2]) for row in rows if row[1].startswith("2") or row[1] == "0")
    if not done.returncode and not rows:
        raise TooShort(f"no reply came within {seconds:g} s")
    if done.returncode or not (data and total) or not good:
        statuses = ", ".join(f"{count} × {status}" for status, count in Counter(row[1] for row in rows).items())
        last = " ".join((done.stderr or done.stdout).split())[-200:]
        raise LoadError(f"h2load ended with {done.returncode}; statuses: {statuses or 'none'}; {last}")
    return Loaded(
        requests=len(rows),
        good=len(good),
        errors=100 * (1 - len(good) / len(rows)) if told else None,
        seconds=seconds,
        mean=statistics.fmean(good) / 1000,
        p50=percentile(good, 50) / 1000,
        p95=percentile(good, 95) / 1000,
        p99=percentile(good, 99) / 1000,
        wire_bytes=int(total[1]) / len(good),
        body_bytes=int(data[1]) / len(good),
    )
