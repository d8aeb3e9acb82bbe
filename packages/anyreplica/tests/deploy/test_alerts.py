"""Tests of the alert rules: their syntax, when they fire, and their instructions."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from conftest import ROOT
from tests.deploy.prometheus import FOLDER, RULES, configuration, rules

needs_prometheus = pytest.mark.needs("prometheus")
HERE = Path(__file__).parent


def promtool(*arguments: str | Path) -> str:
    """Run promtool, which must succeed, and return its output."""
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False, timeout=90)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.servers
@needs_prometheus
def test_configuration_and_rules_are_valid() -> None:
    """promtool accepts the configuration and the rules.

    It checks only the syntax of the configuration, because the secret exists only where Docker mounts it.
    """
    promtool("check", "config", "--syntax-only", "--lint-fatal", FOLDER / "prometheus.yml")
    promtool("check", "rules", "--lint-fatal", RULES)


@pytest.mark.servers
@needs_prometheus
@pytest.mark.parametrize("file", ["alerts.yml", "error_budget.yml"])
def test_alerts_fire_when_they_should(file: str) -> None:
    """The right alerts fire at the right times, and no others."""
    promtool("test", "rules", HERE / file)


def test_every_alert_is_made_to_fire() -> None:
    """Each alert fires in one of the promtool files."""
    texts = [(HERE / file).read_text() for file in ("alerts.yml", "error_budget.yml")]
    tests = [test for text in texts for test in yaml.safe_load(text)["tests"]]
    labels = " ".join(
        sample["labels"] for test in tests for each in test["promql_expr_test"] for sample in each["exp_samples"]
    )
    assert {name for name in rules("alert") if f'"{name}"' not in labels} == set()


@pytest.mark.parametrize("alert", rules("alert").values(), ids=rules("alert"))
def test_an_alert_says_what_to_do(alert: dict[str, Any]) -> None:
    """An alert has a severity, a summary and a runbook in complete sentences."""
    assert alert["labels"]["severity"] in ("page", "ticket")
    assert alert["annotations"].keys() == {"summary", "runbook"}
    assert all(text.endswith((".", "…).")) for text in alert["annotations"].values())


def test_memory_is_measured_by_the_limit_of_the_stack() -> None:
    """The memory alert uses the memory limit of `stack.yml`."""
    limit = yaml.safe_load((ROOT / "stack.yml").read_text())["services"]["mcp"]["deploy"]["resources"]["limits"]
    assert limit["memory"] == "512M"
    assert rules("alert")["MemoryNearLimit"]["expr"].endswith(f"0.85 * {512 * 1024**2}")


def test_replicas_are_found_one_by_one() -> None:
    """Prometheus finds each replica by the DNS name of the tasks and by the port of the stack.

    The service's own name would lead to the virtual address.
    """
    job, autoscaler = configuration()["scrape_configs"]
    assert autoscaler["dns_sd_configs"][0]["names"] == ["tasks.autoscale"]
    (found,) = job["dns_sd_configs"]
    (port,) = yaml.safe_load((ROOT / "stack.yml").read_text())["services"]["mcp"]["ports"]
    assert (found["names"], found["type"], found["port"]) == (["tasks.mcp"], "A", port["target"])
    assert {rule["expr"].partition("job=")[2][:5] for rule in rules("alert").values() if "job=" in rule["expr"]} == {
        f'"{job["job_name"]}"'
    }
