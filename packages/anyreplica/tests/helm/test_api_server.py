"""The Helm chart in a real API server of Kubernetes 1.37, with its controllers and without nodes.

The server also knows the types of the Gateway API, KEDA, the Prometheus operator and the External Secrets operator.
"""

import json
from typing import Any

import pytest
import yaml

from tests.helm.chart import CHART, EVERYTHING, MATRIX, Object, objects, one
from tests.helm.cluster import MANAGER, Cluster

pytestmark = [pytest.mark.needs("helm"), pytest.mark.needs("api-server")]

EVERY = {**MATRIX, "everything": EVERYTHING}
IN_FLIGHT = {"name": "mcp_requests_in_flight"}


def target(amount: str) -> Object:
    """Return the target of a metric."""
    return {"type": "AverageValue", "averageValue": amount}


def applied(cluster: Cluster, namespace: str, found: Object) -> Object:
    """Apply an object, and return it."""
    answer = cluster.apply(found, namespace)
    assert answer.status_code == 201, answer.text
    return found


@pytest.mark.parametrize("name", EVERY)
def test_each_object_is_accepted(cluster: Cluster, namespace: str, name: str) -> None:
    """The server accepts each object without a warning. A second time, it changes nothing."""
    # The autoscalers come last, because they change their Deployments.
    for found in sorted(objects(EVERY[name]), key=lambda each: each["kind"] == "HorizontalPodAutoscaler"):
        first, second = cluster.apply(found, namespace), cluster.apply(found, namespace)
        assert (first.status_code, first.headers.get_list("warning")) == (201, []), first.text
        assert second.status_code == 200, second.text
        before, after = first.json()["metadata"], second.json()["metadata"]
        assert after.get("generation") == before.get("generation"), found["kind"]
        mine = [[each for each in on["managedFields"] if each["manager"] == MANAGER] for on in (before, after)]
        assert mine[0] == mine[1], found["kind"]


@pytest.mark.parametrize("name", EVERY)
def test_its_pods_fit_the_restricted_standard(cluster: Cluster, namespace: str, name: str) -> None:
    """A namespace that enforces the standard `restricted` admits a pod of each Deployment."""
    templates = [each["spec"]["template"] for each in objects(EVERY[name]) if each["kind"] == "Deployment"]
    for template in templates:
        answer = admit(cluster, namespace, template)
        assert (answer.status_code, answer.headers.get_list("warning")) == (201, []), answer.text


def admit(cluster: Cluster, namespace: str, template: Object) -> Any:
    """Ask the server whether it would admit a pod."""
    metadata = {**template["metadata"], "generateName": "shop-"}
    made = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    path = f"/api/v1/namespaces/{namespace}/pods"
    return cluster.client.post(path, params={"dryRun": "All", "fieldValidation": "Strict"}, json=made)


def changed(found: Object, path: str, value: object) -> Object:
    """Return the object with another value in a field, such as spec.maxReplicas."""
    made: Object = json.loads(json.dumps(found))
    *way, last = path.split(".")
    inner: Any = made
    for step in way:
        inner = inner[int(step)] if isinstance(inner, list) else inner[step]
    inner[last] = value
    return made


@pytest.mark.parametrize(
    ("name", "kind", "path", "value", "status", "message"),
    [
        ("defaults", "PodDisruptionBudget", "spec.maxUnavailble", 1, 500, "spec.maxUnavailble: field not declared"),
        ("defaults", "PodDisruptionBudget", "spec.minAvailable", 1, 422, "minAvailable"),
        ("defaults", "Deployment", "spec.selector.matchLabels.a", "b", 422, "selector"),
        ("cpu", "HorizontalPodAutoscaler", "spec.maxReplicas", 1, 422, "spec.maxReplicas"),
        ("ingress", "Ingress", "spec.rules.0.host", "not a host", 422, "spec.rules[0].host"),
        ("route", "HTTPRoute", "spec.rules.0.timeouts", {"request": "1s", "backendRequest": "2s"}, 422, "timeouts"),
        ("route", "HTTPRoute", "spec.hostname", "mcp.example.com", 500, "spec.hostname: field not declared"),
        ("keda", "ScaledObject", "spec.triggers.0.metricType", 1, 500, "metricType: expected string"),
        ("monitoring", "ServiceMonitor", "spec.endpoints.0.interval", "often", 422, "spec.endpoints[0].interval"),
        ("monitoring", "PrometheusRule", "spec.groups.0.rules.0.for", "long", 422, "spec.groups[0].rules[0].for"),
    ],
)
def test_a_wrong_object_is_refused(
    cluster: Cluster, namespace: str, name: str, kind: str, path: str, value: object, status: int, message: str
) -> None:
    """The server refuses wrong fields, and combinations that no schema describes. So the tests above can fail.

    For an unknown field, its answer to an apply has the status 500.
    """
    wrong = changed(one(MATRIX[name], kind), path, value)
    answer = cluster.apply(wrong, namespace)
    assert answer.status_code == status, answer.text
    assert message in answer.json()["message"]


@pytest.mark.parametrize(
    ("name", "of", "minimum", "metric"),
    [
        ("cpu", "shop-anyreplica", 2, {"type": "Resource", "resource": {"name": "cpu", "target": target("700m")}}),
        ("custom", "shop-anyreplica", 1, {"type": "Pods", "pods": {"metric": IN_FLIGHT, "target": target("50")}}),
        (
            "worker-custom",
            "shop-anyreplica-worker",
            1,
            {"type": "External", "external": {"metric": {"name": "mcp_jobs_unfinished"}, "target": target("10")}},
        ),
    ],
)
def test_the_autoscaler_has_the_bounds_and_the_metric(
    cluster: Cluster, namespace: str, name: str, of: str, minimum: int, metric: Object
) -> None:
    """The server stores the bounds, the target and the metric, and the defaults of a behaviour that names one field."""
    path = cluster.path(applied(cluster, namespace, one(MATRIX[name], "HorizontalPodAutoscaler", of)), namespace)
    spec = cluster.get(path)["spec"]
    assert spec["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": of}
    assert (spec["minReplicas"], spec["maxReplicas"], spec["metrics"]) == (minimum, 10, [metric])
    if name == "custom":
        assert spec["behavior"]["scaleDown"]["selectPolicy"] == "Min"
        assert spec["behavior"]["scaleDown"]["policies"]


@pytest.mark.parametrize(("name", "of", "number"), [("defaults", "shop-anyreplica", 1), ("pod", "shop", "25%")])
def test_the_budget_has_its_number(cluster: Cluster, namespace: str, name: str, of: str, number: object) -> None:
    """The server stores the number of pods that may be missing, and selects the pods of the Deployment."""
    spec = cluster.get(
        cluster.path(applied(cluster, namespace, one(MATRIX[name], "PodDisruptionBudget", of)), namespace)
    )["spec"]
    assert (spec["maxUnavailable"], spec["unhealthyPodEvictionPolicy"]) == (number, "AlwaysAllow")
    assert spec["selector"] == one(MATRIX[name], "Deployment", of)["spec"]["selector"]


def test_a_pod_without_its_security_is_refused(cluster: Cluster, namespace: str) -> None:
    """The namespace enforces the standard: a pod that may run as root is refused."""
    template = one({}, "Deployment")["spec"]["template"]
    answer = admit(cluster, namespace, changed(template, "spec.securityContext", {}))
    assert answer.status_code == 403
    assert 'violates PodSecurity "restricted' in answer.json()["message"]


def test_the_example_of_external_secrets_is_accepted(cluster: Cluster, namespace: str) -> None:
    """The server accepts the ExternalSecret of the examples."""
    example = yaml.safe_load((CHART / "examples" / "external-secret.yaml").read_text())
    answer = cluster.apply(example, namespace)
    assert (answer.status_code, answer.headers.get_list("warning")) == (201, []), answer.text
