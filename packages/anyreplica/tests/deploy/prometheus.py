"""A real Prometheus with the configuration that `deploy/observability.yml` gives it."""

import contextlib
import math
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import yaml

from conftest import ROOT, Server, free_port, until

FOLDER = ROOT / "deploy" / "observability"
RULES = FOLDER / "alerts.yml"


def configuration() -> dict[str, Any]:
    """Return the configuration as it is shipped."""
    found: dict[str, Any] = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    return found


def rules(kind: str) -> dict[str, dict[str, Any]]:
    """Return all rules of a kind, `alert` or `record`, by name."""
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return {rule[kind]: rule for group in groups for rule in group["rules"] if kind in rule}


def uncompared(expression: str) -> str:
    """Return an alert's expression with a result even if it does not fire, unless a series of a comparison is missing.

    With `bool`, the result of a comparison is 0 or 1. Without it, the result is empty if the comparison is false.
    """
    return re.sub(r" (==|>|<) ", r" \1 bool ", expression).replace("absent(", "(")


class Series(NamedTuple):
    """One result of a query."""

    labels: dict[str, str]
    value: float


class Prometheus:
    """A Prometheus that scrapes replicas and an autoscaler on this machine. It uses the shipped configuration.

    It scrapes twice a second. `autoscaler` is the port of the autoscaler.
    """

    def __init__(self, folder: Path, replicas: list[Server], token: str, autoscaler: int) -> None:
        address = f"127.0.0.1:{free_port()}"
        self._client = httpx.Client(base_url=f"http://{address}", verify=False, timeout=60)
        (folder / "metrics_token").write_text(f"{token}\n")  # with a line break, as openssl writes the file
        shipped = configuration()
        shipped["global"] = dict.fromkeys(shipped["global"], "500ms")
        shipped["rule_files"] = [str(RULES)]
        del shipped["alerting"]
        ports = [[each.port for each in replicas], [autoscaler]]
        for job, of_job in zip(shipped["scrape_configs"], ports, strict=True):
            del job["dns_sd_configs"]
            job["static_configs"] = [{"targets": [f"127.0.0.1:{port}" for port in of_job]}]
            job["authorization"]["credentials_file"] = str(folder / "metrics_token")
        file, self._log = folder / "prometheus.yml", folder / "prometheus.log"
        file.write_text(yaml.safe_dump(shipped))
        command = ["prometheus", f"--config.file={file}", f"--storage.tsdb.path={folder / 'data'}"]
        command.append(f"--web.listen-address={address}")
        with self._log.open("w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)

    def wait_ready(self, replicas: int) -> None:
        """Wait until Prometheus has scraped this number of replicas."""

        def ready() -> bool:
            assert self.process.poll() is None, self._log.read_text()
            with contextlib.suppress(httpx.TransportError):
                return len(self.query('up{job="mcp"} == 1')) == replicas
            return False

        until(ready, f"Prometheus has scraped {replicas} replicas")

    def query(self, expression: str) -> list[Series]:
        """Return the current results of an expression, without results that are not a number."""
        answer = self._client.get("/api/v1/query", params={"query": expression})
        if answer.status_code == 503:
            return []  # Prometheus is starting
        assert answer.status_code == 200, f"{expression}: {answer.text}"
        data = answer.json()["data"]
        results = [{"metric": {}, "value": data["result"]}] if data["resultType"] == "scalar" else data["result"]
        found = [Series(result["metric"], float(result["value"][1])) for result in results]
        return [series for series in found if not math.isnan(series.value)]

    def wait(self, expression: str) -> list[Series]:
        """Wait until an expression has a result, and return the results."""
        until(lambda: bool(self.query(expression)), f"{expression} has a result")
        return self.query(expression)

    def stop(self) -> None:
        """Stop Prometheus."""
        self._client.close()
        self.process.terminate()
        self.process.wait(60)


@contextlib.contextmanager
def scraping(folder: Path, replicas: list[Server], token: str, autoscaler: int) -> Iterator[Prometheus]:
    """Run a Prometheus that has scraped each replica once."""
    made = Prometheus(folder, replicas, token, autoscaler)
    try:
        made.wait_ready(len(replicas))
        yield made
    finally:
        made.stop()
