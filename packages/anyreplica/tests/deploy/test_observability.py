"""Tests of Prometheus, Grafana and the collector in a stack.

They check the result of merging `deploy/observability.yml` and `deploy/traces.yml`.
"""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from conftest import ROOT, run
from tests.deploy.prometheus import FOLDER, configuration
from tests.deploy.test_jobs import merged, secrets_of

needs_docker = pytest.mark.needs("docker")
OVERLAY, TRACES = "deploy/observability.yml", "deploy/traces.yml"
COLLECTED = {"TRACES_ENDPOINT": "https://traces.example.com:4318"}


def read(overlay: str) -> dict[str, Any]:
    """Return an overlay without the stack."""
    found: dict[str, Any] = yaml.safe_load((ROOT / overlay).read_text())
    return found


def mounted(service: dict[str, Any]) -> set[str]:
    """Return the paths of a service's configs."""
    return {config["target"] for config in service["configs"]}


@pytest.mark.servers
@needs_docker
def test_the_overlay_adds_only_a_secret_to_replicas() -> None:
    """The overlay adds only METRICS_TOKEN to the replicas, which Prometheus sends, and fits with all others."""
    alone, with_metrics = merged()["services"]["mcp"], merged(OVERLAY)["services"]["mcp"]
    assert {name for name in with_metrics if with_metrics[name] != alone.get(name)} == {"secrets"}
    services = merged(OVERLAY)["services"]
    assert secrets_of(services["mcp"]) == {"request_state_keys", "metrics_token"}
    assert secrets_of(services["prometheus"]) == {"metrics_token"}
    for job in configuration()["scrape_configs"]:
        assert job["authorization"] == {"credentials_file": "/run/secrets/metrics_token"}
    others = ["deploy/edge.yml", "deploy/jobs.yml", "deploy/keys.yml"]
    services = merged(*others, OVERLAY, TRACES, **COLLECTED)["services"]
    assert services.keys() == {"mcp", "edge", "worker", "redis", "prometheus", "grafana", "collector"}
    assert secrets_of(services["mcp"]) == {"request_state_keys", "jobs_url", "api_keys", "metrics_token"}


@pytest.mark.servers
@needs_docker
def test_both_are_bounded_and_stay_with_their_volumes() -> None:
    """Both have limits, stay with their volumes, stop before an update, and only Grafana has a port."""
    services = merged(OVERLAY, OBSERVABILITY_NODE="node.hostname==tower", GRAFANA_PORT="3001")["services"]
    assert "ports" not in services["prometheus"]
    (port,) = services["grafana"]["ports"]
    assert (port["target"], port["published"]) == (3000, 3001)
    for name, folder in (("prometheus", "/prometheus"), ("grafana", "/var/lib/grafana")):
        service = services[name]
        volume, scratch = service["volumes"]
        assert volume == {"type": "volume", "source": f"{name}-data", "target": folder}
        assert (scratch["type"], scratch["target"]) == ("tmpfs", "/tmp")  # noqa: S108
        deploy = service["deploy"]
        assert (deploy["replicas"], deploy["update_config"]["order"]) == (1, "stop-first")
        assert deploy["placement"] == {"constraints": ["node.hostname==tower"]}
        assert deploy["resources"]["limits"].keys() == {"cpus", "memory"}
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    assert merged(OVERLAY)["services"]["grafana"]["deploy"]["placement"] == {"constraints": ["node.role==manager"]}


@pytest.mark.parametrize("overlay", [OVERLAY, TRACES])
def test_files_are_there_and_contents_and_images_have_their_names(overlay: str) -> None:
    """Configs have files, and names with the number of their content; images have a fixed, replaceable version."""
    stack = read(overlay)
    for config in stack["configs"].values():
        assert (ROOT / config["file"]).is_file()
        assert config["name"].endswith("-${OBSERVABILITY_CFG:-0}")
    used = {config["source"] for service in stack["services"].values() for config in service.get("configs", [])}
    assert used == stack["configs"].keys()
    images = [service["image"] for service in stack["services"].values() if "image" in service]
    assert images
    for image in images:
        assert re.fullmatch(r"\$\{[A-Z]+_IMAGE:-[a-z-]+/[a-z-]+:v?\d+\.\d+\.\d+\}", image), image


def test_files_are_where_programs_look_for_them() -> None:
    """Each file belongs to an overlay, at the path that others name, and the collector's parts fit together."""
    configs = [config["file"] for overlay in (OVERLAY, TRACES) for config in read(overlay)["configs"].values()]
    assert {ROOT / file for file in configs} == {path for path in FOLDER.rglob("*") if path.is_file()}
    services = read(OVERLAY)["services"]
    prometheus, grafana = mounted(services["prometheus"]), services["grafana"]
    assert {*configuration()["rule_files"], "/etc/prometheus/prometheus.yml"} == prometheus
    (option,) = [each for each in services["prometheus"]["command"] if each.startswith("--config.file=")]
    assert option.partition("=")[2] in prometheus
    provider = yaml.safe_load((FOLDER / "grafana" / "provisioning" / "dashboards" / "files.yml").read_text())
    folder = Path(provider["providers"][0]["options"]["path"])
    dashboards = {str(folder / path.name) for path in (FOLDER / "grafana" / "dashboards").glob("*.json")}
    assert dashboards == {target for target in mounted(grafana) if target.endswith(".json")}
    assert grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"] in dashboards
    assert grafana["environment"]["GF_SECURITY_ADMIN_PASSWORD__FILE"] == f"/run/secrets/{grafana['secrets'][0]}"
    config = yaml.safe_load((FOLDER / "collector.yml").read_text())
    (pipeline,) = config["service"]["pipelines"].values()
    for part in ("receivers", "processors", "exporters"):
        assert set(pipeline[part]) == config[part].keys()
    assert pipeline["processors"][0] == "memory_limiter"
    assert config["receivers"]["otlp"]["protocols"] == {"http": {"endpoint": "0.0.0.0:4318"}}


@pytest.mark.servers
@needs_docker
def test_traces_go_through_the_collector() -> None:
    """Traces go through the collector to TRACES_ENDPOINT; without this variable the stack is refused."""
    services = merged(TRACES, **COLLECTED)["services"]
    assert services["mcp"]["environment"]["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://collector:4318"
    assert services["collector"]["environment"] == COLLECTED
    assert "ports" not in services["collector"]
    done = run("docker", "stack", "config", "-c", "stack.yml", "-c", TRACES)
    assert done.returncode != 0
    assert "required variable TRACES_ENDPOINT is missing a value" in done.stderr
