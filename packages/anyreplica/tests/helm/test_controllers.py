"""The Helm chart in a real API server with the controllers of Kubernetes: budgets, autoscalers and upgrades by Helm.

There are no nodes. The tests mark the pods as ready in place of the nodes.
"""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from conftest import until
from tests.helm.chart import MATRIX, Object
from tests.helm.cluster import Cluster, conditions

pytestmark = [pytest.mark.needs("helm"), pytest.mark.needs("api-server")]

NAME = "shop-anyreplica"
AUTOSCALERS = "/apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers"
CUSTOM = {"autoscaling": {"mode": "custom"}}
JOBS = "mcp_jobs_unfinished"
REASONS = {
    "pods": "FailedGetResourceMetric",
    "mcp_requests_in_flight": "FailedGetPodsMetric",
    JOBS: "FailedGetExternalMetric",
}
"""What an autoscaler says without the metric."""


def deployment(cluster: Cluster, namespace: str) -> Object:
    """Return the Deployment of the replicas."""
    found: Object = cluster.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/{NAME}")
    return found


def budget(cluster: Cluster, namespace: str) -> Object:
    """Return the PodDisruptionBudget of the replicas."""
    found: Object = cluster.get(f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/{NAME}")
    return found


def install(cluster: Cluster, namespace: str, values: Mapping[str, Any], *options: str) -> None:
    """Install the chart, or upgrade it."""
    done = cluster.upgrade(namespace, values, *options)
    assert done.returncode == 0, done.stderr


def owners(found: Object, *path: str) -> set[str]:
    """Return the managers that own a field, such as ("spec", "replicas")."""
    named = set()
    for entry in found["metadata"]["managedFields"]:
        inner: Any = entry["fieldsV1"]
        for step in path:
            inner = inner.get(f"f:{step}") if inner is not None else None
        if inner is not None:
            named.add(entry["manager"])
    return named


def replicas(cluster: Cluster, namespace: str) -> int:
    """Return the number of replicas that the Deployment shall have."""
    number: int = deployment(cluster, namespace)["spec"]["replicas"]
    return number


def scale(cluster: Cluster, namespace: str, number: int) -> None:
    """Set the number of replicas as `kubectl scale` does."""
    cluster.client.patch(
        f"/apis/apps/v1/namespaces/{namespace}/deployments/{NAME}/scale",
        params={"fieldManager": "kubectl"},
        content=json.dumps({"spec": {"replicas": number}}),
        headers={"Content-Type": "application/merge-patch+json"},
    ).raise_for_status()


def ready(pods: list[Object]) -> list[Object]:
    """Return those of the pods that are ready."""
    return [each for each in pods if conditions(each).get("Ready", ("", ""))[0] == "True"]


def start(cluster: Cluster, namespace: str, number: int, component: str = "replica") -> None:
    """Wait until the Deployment has made its pods, and say that they are ready."""

    def started() -> bool:
        cluster.run_pods(namespace)
        return len(ready(cluster.pods(namespace, component))) == number

    until(started, f"{number} pods are ready")


def evict(cluster: Cluster, namespace: str, pod: Object) -> int:
    """Ask to remove a pod as the drain of a node does, and return the status of the answer."""
    name = pod["metadata"]["name"]
    asked = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    return cluster.client.post(f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", json=asked).status_code


def test_a_drain_stops_one_replica_at_a_time(cluster: Cluster, namespace: str) -> None:
    """The budget lets one replica go, and the next one only when a new replica is ready."""
    install(cluster, namespace, {"replicaCount": 3})
    start(cluster, namespace, 3)
    assert budget(cluster, namespace)["spec"]["maxUnavailable"] == 1
    until(lambda: budget(cluster, namespace)["status"].get("disruptionsAllowed") == 1, "one pod may go")
    status = budget(cluster, namespace)["status"]
    assert (status["expectedPods"], status["currentHealthy"], status["desiredHealthy"]) == (3, 3, 2)
    first, second, _ = cluster.pods(namespace)
    assert evict(cluster, namespace, first) == 201
    assert evict(cluster, namespace, second) == 429
    start(cluster, namespace, 3)
    until(lambda: evict(cluster, namespace, second) == 201, "the next pod may go")


def test_a_drain_does_not_wait_for_a_replica_that_is_not_ready(cluster: Cluster, namespace: str) -> None:
    """A replica that runs and is not ready can be removed, also if no ready replica may go."""
    install(cluster, namespace, {"replicaCount": 2})
    start(cluster, namespace, 2)
    broken, _ = cluster.pods(namespace)
    cluster.set_ready(broken, ready=False)
    until(lambda: budget(cluster, namespace)["status"]["currentHealthy"] == 1, "the budget knows the broken pod")
    assert budget(cluster, namespace)["status"]["disruptionsAllowed"] == 0
    assert evict(cluster, namespace, broken) == 201


def test_an_update_starts_a_replica_before_it_stops_one(cluster: Cluster, namespace: str) -> None:
    """During an update there are always three ready replicas, and never more than one in addition."""
    install(cluster, namespace, {"replicaCount": 3, "image": {"tag": "1"}})
    start(cluster, namespace, 3)
    until(lambda: deployment(cluster, namespace)["status"].get("availableReplicas") == 3, "3 replicas are available")
    install(cluster, namespace, {"replicaCount": 3, "image": {"tag": "2"}})

    def updated() -> bool:
        cluster.run_pods(namespace)
        pods = cluster.pods(namespace)
        assert len(ready(pods)) >= 3
        assert len(pods) <= 4
        return [each["spec"]["containers"][0]["image"] for each in pods] == ["mcp-swarm:2"] * 3

    until(updated, "all replicas have the new image", 90)


@pytest.mark.parametrize(
    ("values", "component", "metric", "amount", "wanted"),
    [
        (MATRIX["cpu"], "replica", "pods", "1", 3),  # 2 replicas x 1 core / 700m
        (CUSTOM, "replica", "mcp_requests_in_flight", "120", 5),  # 2 replicas x 120 / 50
        (MATRIX["worker-cpu"], "worker", "pods", "2", 3),  # 1 worker x 2 cores / 700m
        (MATRIX["worker-custom"], "worker", "mcp_jobs_unfinished", "42", 5),  # 42 jobs / 10
    ],
)
def test_the_autoscaler_follows_the_load(
    cluster: Cluster, namespace: str, values: Mapping[str, Any], component: str, metric: str, amount: str, wanted: int
) -> None:
    """The autoscaler sets the minimum, and more if the metric of its mode is above the target."""
    name = NAME if component == "replica" else f"{NAME}-worker"
    minimum = 2 if component == "replica" else 1
    install(cluster, namespace, values)
    path = f"{AUTOSCALERS.format(namespace)}/{name}"
    found = cluster.wait_for(path, "ScalingActive")
    assert (found["spec"]["minReplicas"], found["spec"]["maxReplicas"]) == (minimum, 10)
    assert conditions(found)["AbleToScale"][0] == "True"
    assert conditions(found)["ScalingActive"] == ("False", REASONS[metric])
    start(cluster, namespace, minimum, component)
    pods = [each["metadata"]["name"] for each in cluster.pods(namespace, component)]
    assert cluster.metrics
    cluster.metrics.values[namespace, metric] = lambda: dict.fromkeys(pods if metric != JOBS else [""], amount)
    until(lambda: len(cluster.pods(namespace, component)) == wanted, f"there are {wanted} pods")
    # The autoscaler writes its conditions after the number.
    good = ("True", "ValidMetricFound")
    until(lambda: conditions(cluster.get(path))["ScalingActive"] == good, "the autoscaler has found its metric")


def test_a_second_installation_changes_nothing(cluster: Cluster, namespace: str) -> None:
    """An upgrade with the same values changes no object."""
    values = {**MATRIX["redis"], "networkPolicy": {"enabled": True}, **MATRIX["ingress"]}
    install(cluster, namespace, values)
    kinds = ("apis/apps/v1", "deployments"), ("apis/networking.k8s.io/v1", "ingresses"), ("api/v1", "secrets")

    def state() -> dict[str, Any]:
        listed = [
            each
            for prefix, plural in kinds
            for each in cluster.get(f"/{prefix}/namespaces/{namespace}/{plural}")["items"]
            if "helm.sh/release" not in each.get("type", "")
        ]
        return {
            each["metadata"]["uid"]: (each["metadata"].get("generation"), each.get("data"), each.get("spec"))
            for each in listed
        }

    before = state()
    assert len(before) == 5
    install(cluster, namespace, values)
    assert state() == before


def test_the_keys_stay(cluster: Cluster, namespace: str) -> None:
    """An upgrade keeps request_state_keys, and so does a new installation after an uninstall."""
    path = f"/api/v1/namespaces/{namespace}/secrets/{NAME}-keys"
    install(cluster, namespace, {})
    keys = cluster.get(path)["data"]
    install(cluster, namespace, {"replicaCount": 4})
    assert cluster.get(path)["data"] == keys
    assert cluster.helm("uninstall", "shop", "--namespace", namespace).returncode == 0
    assert cluster.get(path)["data"] == keys
    assert cluster.get(f"/apis/apps/v1/namespaces/{namespace}/deployments")["items"] == []
    install(cluster, namespace, {})
    assert cluster.get(path)["data"] == keys


def test_helm_leaves_the_number_to_the_autoscaler(cluster: Cluster, namespace: str) -> None:
    """An upgrade does not change the number that the autoscaler has chosen, and Helm does not own it."""
    install(cluster, namespace, MATRIX["cpu"])
    until(lambda: replicas(cluster, namespace) == 2, "the autoscaler has set the minimum")
    scale(cluster, namespace, 5)
    install(cluster, namespace, {**MATRIX["cpu"], "image": {"tag": "2"}})
    assert replicas(cluster, namespace) == 5
    assert "helm" not in owners(deployment(cluster, namespace), "spec", "replicas")
    assert "helm" in owners(deployment(cluster, namespace), "spec", "minReadySeconds")


def test_a_change_to_autoscaling_and_back_keeps_the_replicas(cluster: Cluster, namespace: str) -> None:
    """The steps of the guide: `kubectl scale` before the change, and `--force-conflicts` on the way back."""
    install(cluster, namespace, {"replicaCount": 4})
    assert owners(deployment(cluster, namespace), "spec", "replicas") == {"helm"}
    scale(cluster, namespace, 5)
    install(cluster, namespace, MATRIX["cpu"])
    assert replicas(cluster, namespace) == 5
    assert "helm" not in owners(deployment(cluster, namespace), "spec", "replicas")
    install(cluster, namespace, {"autoscaling": {"mode": "cpu", "minReplicas": 6}})
    until(lambda: replicas(cluster, namespace) == 6, "the autoscaler has changed the number")
    assert owners(deployment(cluster, namespace), "spec", "replicas") == {"kube-controller-manager"}
    refused = cluster.upgrade(namespace, {"replicaCount": 7})
    assert refused.returncode != 0
    assert 'conflict with "kube-controller-manager"' in refused.stderr
    install(cluster, namespace, {"replicaCount": 7}, "--force-conflicts")
    assert replicas(cluster, namespace) == 7
    assert cluster.get(AUTOSCALERS.format(namespace))["items"] == []


def test_helm_does_not_overwrite_a_number_set_by_hand(cluster: Cluster, namespace: str) -> None:
    """After `kubectl scale`, an upgrade with another number is refused, and an upgrade with this number works."""
    install(cluster, namespace, {"replicaCount": 3})
    scale(cluster, namespace, 5)
    refused = cluster.upgrade(namespace, {"replicaCount": 3, "image": {"tag": "2"}})
    assert refused.returncode != 0
    assert "UPGRADE FAILED: conflict" in refused.stderr
    assert ".spec.replicas" in refused.stderr
    assert replicas(cluster, namespace) == 5
    install(cluster, namespace, {"replicaCount": 5, "image": {"tag": "2"}})
    assert replicas(cluster, namespace) == 5
