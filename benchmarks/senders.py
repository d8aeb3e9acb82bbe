"""Programs that load a server: wrk, the load test, and HTTP clients of Python. Each runs alone, on the load's core."""

import json
import re
import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from mcp_swarm.loadtest.message import Family, SentRequest, Writer
from mcp_swarm.loadtest.target import LoadTarget

from benchmarks.load import LoadError
from benchmarks.process import ROOT

ARGUMENTS = {"message": "hi"}
CLIENTS = ("httpx", "aiohttp")
"""What `benchmarks.clients` knows."""

_MILLISECONDS = {"us": 0.001, "ms": 1.0, "s": 1000.0}


class SenderError(LoadError):
    """A program found a wrong reply, or did not run; `str()` says which, and what it said."""


@dataclass(frozen=True)
class Figures:
    """What a program says of its run."""

    rate: float
    """Successful requests per second."""
    p50: float
    """Milliseconds."""
    p99: float
    cpu_us: float
    """CPU time of the program per request."""


@dataclass(frozen=True)
class Job:
    """What a program is to send, and how: the same bytes, whatever the program."""

    url: str
    tool: str
    connections: int
    seconds: int
    core: int
    folder: Path
    """For files that a program reads or writes."""

    @property
    def request(self) -> SentRequest:
        """The request, as the load test sends it."""
        writer = Writer(LoadTarget.of(self.url), {})
        return writer.request(Family.LEGACY, 1, "tools/call", {"name": self.tool, "arguments": ARGUMENTS})


def split(payload: bytes) -> tuple[dict[str, str], bytes]:
    """A request's headers, without those that every client writes itself, and its body."""
    head, _, body = payload.partition(b"\r\n\r\n")
    pairs = (line.split(": ", 1) for line in head.decode("latin-1").split("\r\n")[1:])
    return {name: value for name, value in pairs if name not in ("Host", "Content-Length")}, body


def wrk(job: Job) -> Figures:
    """What wrk says; it looks at no reply but for its status."""
    headers, body = split(job.request.payload)
    script = job.folder / "post.lua"
    script.write_text(
        f"wrk.method = 'POST'\nwrk.body = [=[{body.decode()}]=]\n"
        + "".join(f"wrk.headers[{json.dumps(name)}] = {json.dumps(value)}\n" for name, value in headers.items())
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    said = _run(job, "wrk", "-t1", f"-c{job.connections}", f"-d{job.seconds}s", "--latency", "-s", str(script), job.url)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    count = re.search(r"(\d+) requests in", said)
    rate = re.search(r"Requests/sec:\s+([\d.]+)", said)
    times = {
        percent: float(value) * _MILLISECONDS[unit]
        for percent, value, unit in re.findall(r"(50|99)%\s+([\d.]+)(us|ms|s)\b", said)
    }
    if rate is None or count is None or "Non-2xx" in said or "Socket errors" in said:
        raise SenderError(f"wrk: {said.strip()}")
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Figures(float(rate[1]), times["50"], times["99"], 1e6 * spent / int(count[1]))


def load_test(job: Job, *, sdk: bool = False) -> Figures:
    """What `test_swarm_load.py` says; it checks every reply.

    Args:
        sdk: with the official SDK's client, which calls echo.
    """
    file = job.folder / "run.json"
    load = ["--url", job.url, "--duration", f"{job.seconds}s", "--concurrent", str(job.connections)]
    what = ["--sdk"] if sdk else ["--tool", job.tool, "--args", json.dumps(ARGUMENTS)]
    _run(job, sys.executable, "test_swarm_load.py", *load, *what, "--expect-replicas", "1", "--json", str(file))
    run = json.loads(file.read_text())
    cpu_us = 1e6 * run["generator"]["cpu"] / run["throughput"]
    return Figures(run["throughput"], run["latency"]["p50"], run["latency"]["p99"], cpu_us)


def client(job: Job, name: str) -> Figures:
    """What one of `CLIENTS` manages, each reply checked."""
    said = _run(
        job, sys.executable, "-m", "benchmarks.clients", name, job.url, job.tool, str(job.connections), str(job.seconds)
    )
    return Figures(**json.loads(said))


def _run(job: Job, *command: str) -> str:
    pinned = ["taskset", "-c", str(job.core), *command]
    done = subprocess.run(pinned, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SenderError(f"{Path(command[0]).name} {command[1]}: {(done.stdout + done.stderr).strip()[-2000:]}")
    return done.stdout
