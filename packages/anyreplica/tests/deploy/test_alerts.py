"""Tests of the alert rules: their syntax, when they fire, and their instructions."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from conftest import ROOT, run
from tests.deploy.prometheus import FOLDER, RULES, configuration, rules

HERE = Path(__file__).parent


@pytest.mark.servers
@pytest.mark.needs("prometheus")
@pytest.mark.parametrize(
    "command",
    [
        # Only the syntax, because the secret exists only where Docker mounts it.
        ["check", "config", "--syntax-only", "--lint-fatal", FOLDER / "prometheus.yml"],
        ["check", "rules", "--lint-fatal", RULES],
        ["test", "rules", HERE / "alerts.yml"],
        ["test", "rules", HERE / "error_budget.yml"],
    ],
    ids=["configuration", "rules", "alerts", "error budget"],
)
def test_promtool_accepts_everything(command: list[str | Path]) -> None:
    """The configuration and the rules are valid, and the right alerts fire at the right times."""
    done = run("promtool", *map(str, command))
    assert done.returncode == 0, done.stdout + done.stderr


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


def test_replicas_and_their_limit_are_those_of_the_stack() -> None:
    """Prometheus finds each replica by the DNS name of the tasks, and the memory alert has the limit of the stack."""
    limit = yaml.safe_load((ROOT / "stack.yml").read_text())["services"]["mcp"]["deploy"]["resources"]["limits"]
    assert limit["memory"] == "512M"
    assert rules("alert")["MemoryNearLimit"]["expr"].endswith(f"0.85 * {512 * 1024**2}")
    job, autoscaler = configuration()["scrape_configs"]
    assert autoscaler["dns_sd_configs"][0]["names"] == ["tasks.autoscale"]
    (found,) = job["dns_sd_configs"]
    (port,) = yaml.safe_load((ROOT / "stack.yml").read_text())["services"]["mcp"]["ports"]
    assert (found["names"], found["type"], found["port"]) == (["tasks.mcp"], "A", port["target"])
    assert {rule["expr"].partition("job=")[2][:5] for rule in rules("alert").values() if "job=" in rule["expr"]} == {
        f'"{job["job_name"]}"'
    }
