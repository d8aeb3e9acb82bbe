"""The two load generators that are compared: wrk and the load test. Each runs alone, on the load's core."""

import json
import re
import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from anyreplica.load.message import Family, LoadTarget, SentRequest, Writer
from benchmarks.load import LoadError
from benchmarks.process import ROOT

CONNECTIONS = 50
ARGUMENTS = {"message": "hi"}
_MILLISECONDS = {"us": 0.001, "ms": 1.0, "s": 1000.0}


class SenderError(LoadError):
    """A generator found a wrong reply or did not run; `str()` has its output."""


@dataclass(frozen=True)
class Job:
    """The load that a generator creates: both generators send the same bytes."""

    url: str
    tool: str
    seconds: int
    core: int
    folder: Path

    @property
    def request(self) -> SentRequest:
        """The request as the load test sends it."""
        writer = Writer(LoadTarget.of(self.url), {})
        return writer.request(Family.LEGACY, 1, "tools/call", {"name": self.tool, "arguments": ARGUMENTS})


def wrk(job: Job) -> dict[str, float]:
    """Return the figures of wrk, which checks only the status of a reply.

    Both generators return the same figures: successful requests per second, p50 and p99 in ms, and the generator's own
    CPU time per request in µs.
    """
    headers, body = split(job.request.payload)
    script = job.folder / "post.lua"
    script.write_text(
        f"wrk.method = 'POST'\nwrk.body = [=[{body.decode()}]=]\n"
        + "".join(f"wrk.headers[{json.dumps(name)}] = {json.dumps(value)}\n" for name, value in headers.items())
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    text = _run(job, "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{job.seconds}s", "--latency", "-s", str(script), job.url)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    count = re.search(r"(\d+) requests in", text)
    rate = re.search(r"Requests/sec:\s+([\d.]+)", text)
    times = {
        percent: float(value) * _MILLISECONDS[unit]
        for percent, value, unit in re.findall(r"(50|99)%\s+([\d.]+)(us|ms|s)\b", text)
    }
    if rate is None or count is None or "Non-2xx" in text or "Socket errors" in text:
        raise SenderError(f"wrk: {text.strip()}")
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"rate": float(rate[1]), "p50": times["50"], "p99": times["99"], "cpu": 1e6 * spent / int(count[1])}


def load_test(job: Job) -> dict[str, float]:
    """Return the figures of `test_swarm_load.py`, which checks every reply."""
    file = job.folder / "run.json"
    load = ["--url", job.url, "--duration", f"{job.seconds}s", "--concurrent", str(CONNECTIONS)]
    what = ["--tool", job.tool, "--args", json.dumps(ARGUMENTS)]
    _run(job, sys.executable, "test_swarm_load.py", *load, *what, "--expect-replicas", "1", "--json", str(file))
    run = json.loads(file.read_text())
    rate, latency = run["throughput"], run["latency"]
    return {"rate": rate, "p50": latency["p50"], "p99": latency["p99"], "cpu": 1e6 * run["generator"]["cpu"] / rate}


def split(payload: bytes) -> tuple[dict[str, str], bytes]:
    """Return the headers of a request, without those that every client writes itself, and the body."""
    head, _, body = payload.partition(b"\r\n\r\n")
    pairs = (line.split(": ", 1) for line in head.decode("latin-1").split("\r\n")[1:])
    return {name: value for name, value in pairs if name not in ("Host", "Content-Length")}, body


def _run(job: Job, *command: str) -> str:
    pinned = ["taskset", "-c", str(job.core), *command]
    done = subprocess.run(pinned, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SenderError(f"{Path(command[0]).name} {command[1]}: {(done.stdout + done.stderr).strip()[-2000:]}")
    return done.stdout
