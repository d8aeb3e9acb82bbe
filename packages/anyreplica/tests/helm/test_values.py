"""The values of the Helm chart: wrong values are refused by name, and each value is documented."""

from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from anyreplica import Settings
from reference import chart as generated
from tests.helm.chart import CHART, helm, one, refusal, settings, text

pytestmark = pytest.mark.needs("helm")

HOST = {"enabled": True}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"replicaCount": "three"}, "'/replicaCount': got string, want integer"),
        ({"replicaCount": 0}, "'/replicaCount': minimum: got 0, want 1"),
        ({"replicas": 3}, "additional properties 'replicas' not allowed"),
        ({"image": {"name": "x"}}, "at '/image': additional properties 'name' not allowed"),
        ({"env": {"LOG_LEVEL": "LOUD"}}, "'/env/LOG_LEVEL'"),
        ({"env": {"MAX_IN_FLIGHT": "many"}}, "'/env/MAX_IN_FLIGHT'"),
        ({"env": {"AUTH_ENABLED": "perhaps"}}, "'/env/AUTH_ENABLED'"),
        ({"env": {"log_level": "INFO"}}, "'log_level' does not match pattern"),
        ({"env": {"OWN": ["a"]}}, "'/env/OWN'"),
        ({"env": {"DRAIN_SECONDS": 10_000}}, "env.DRAIN_SECONDS: with SHUTDOWN_GRACE_SECONDS"),
        ({"worker": {"env": {"DRAIN_SECONDS": 10_000}}}, "worker.env.DRAIN_SECONDS: "),
        ({"env": {"MCP_REPLICAS": 3}}, "env.MCP_REPLICAS: the chart sets this variable itself"),
        ({"autoscaling": {"mode": "on"}}, "'/autoscaling/mode'"),
        ({"autoscaling": {"mode": "cpu", "minReplicas": 11}}, "autoscaling.minReplicas: 11 is more than"),
        ({"autoscaling": {"mode": "keda"}}, "autoscaling.prometheus: "),
        ({"autoscaling": {"inFlight": 101}}, "autoscaling.inFlight: 101 is more than env.MAX_IN_FLIGHT"),
        ({"worker": {"enabled": True}}, "worker.enabled: workers need a Redis"),
        ({"redis": {"url": "redis://:password@redis:6379/0"}}, "'/redis/url'"),
        ({"redis": {"url": "redis://redis:6379/0", "minimal": HOST}}, "redis.url: redis.minimal.enabled starts"),
        ({"service": {"nodePort": 30150}}, "service.nodePort: 30150 needs service.type NodePort or LoadBalancer"),
        ({"ingress": HOST}, "ingress.hosts: name at least one host"),
        ({"httpRoute": HOST}, "httpRoute.parentRefs: name the Gateway"),
        ({"httpRoute": {"timeouts": {"request": "forever"}}}, "'/httpRoute/timeouts/request'"),
        ({"tmpSize": "big"}, "'/tmpSize'"),
    ],
    ids=str,
)
def test_a_wrong_value_is_refused_by_name(values: Mapping[str, Any], message: str) -> None:
    """A value with a wrong name, type or meaning stops the installation, and the message names the value."""
    assert message in refusal(values)


@pytest.mark.parametrize("name", [name for name in Settings.model_fields if generated.is_secret(name)])
def test_a_secret_is_no_variable(name: str) -> None:
    """Each setting that is a secret is refused as a variable. The message says where it belongs."""
    variable = name.upper()
    message = refusal({"env": {variable: "redis://redis:6379/0"}})
    assert f"env.{variable}: this setting is a secret; put it into a Secret with the key {name}" in message


def test_each_setting_with_its_default_is_accepted() -> None:
    """The rules of the settings accept the default of each setting."""
    taken = {"mcp_host", "mcp_port", "mcp_replicas", "mcp_uds", "replicas_dns"}
    fields = Settings.model_fields.items()
    env = {
        name.upper(): ",".join(field.default) if isinstance(field.default, tuple) else field.default
        for name, field in fields
        if name not in taken and not generated.is_secret(name)
    }
    given = settings(one({"env": {**env, "MCP_NAME": "shop"}}, "Deployment"))
    assert given["MAX_BODY_BYTES"] == str(Settings.model_fields["max_body_bytes"].default)


def test_each_value_has_a_comment() -> None:
    """Each value in values.yaml has a comment of its own, except for the amounts in resources and the annotations."""
    loaded = yaml.safe_load((CHART / "values.yaml").read_text())
    described = {value.path for value in generated.values()}

    def check(values: Mapping[str, Any], prefix: str) -> None:
        for name, value in values.items():
            path = f"{prefix}{name}"
            assert path in described, path
            below = any(each.startswith(f"{path}.") for each in described)
            if isinstance(value, dict) and below:
                check(value, f"{path}.")

    check(loaded, "")
    assert len(described) > 90


def test_the_generated_files_are_current() -> None:
    """README.md, values.schema.json, alerts and dashboards of the chart are those that `make reference` writes."""
    assert len(generated.FILES) >= 7
    for file, content in generated.FILES.items():
        assert file.read_text() == content(), f"{file.name}: run `make reference`"


def test_the_notes_name_the_next_commands() -> None:
    """After an installation, helm prints how to reach the server."""
    done = helm("install", "shop", str(CHART), "--dry-run=client", "--namespace", "shops", values={})
    assert done.returncode == 0, done.stderr
    assert "kubectl --namespace shops port-forward service/shop-anyreplica 8150:80" in done.stdout
    assert "http://shop-anyreplica.shops/mcp" in done.stdout
    other = {"service": {"port": 8080}, "httpRoute": {"enabled": True, "parentRefs": [{"name": "public"}]}}
    done = helm("install", "shop", str(CHART), "--dry-run=client", "--namespace", "shops", values=other)
    assert "http://shop-anyreplica.shops:8080/mcp" in done.stdout
    assert text({})
