"""The objects that the Helm chart renders: their schemas, rules for policies, and what keeps calls from being lost."""

import functools
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml

from conftest import ROOT, Server, StartServer, run
from tests.helm.chart import CHART, EVERYTHING, MATRIX, Object, helm, objects, one, pod, settings, text
from tests.replicas import KEYS

pytestmark = pytest.mark.needs("helm")

VERSIONS = [f"1.{minor}" for minor in range(31, 38)]
"""The versions of Kubernetes that the chart supports."""
GOLDEN = Path(__file__).parent / "golden"
EVERY = {**MATRIX, "everything": EVERYTHING}
OTHER_GROUPS = ("external-secrets.io/", "gateway.networking.k8s.io/", "keda.sh/", "monitoring.coreos.com/")
"""API groups of objects whose schema is not part of Kubernetes."""


@functools.cache
def _valid(version: str, manifest: str) -> None:
    """Validate an object against the schema of a version of Kubernetes. Objects that many values render count once."""
    kubernetes_validate.validate(json.loads(manifest), version, strict=True)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", EVERY)
def test_each_object_fits_the_schema(name: str, version: str) -> None:
    """Each object has only fields that this version of Kubernetes has, with the right types."""
    found = [each for each in objects(EVERY[name]) if not each["apiVersion"].startswith(OTHER_GROUPS)]
    assert {"Deployment", "Service"} <= {each["kind"] for each in found}
    for each in found:
        if each["kind"] == "Secret":  # its random content would be validated each time
            each.pop("stringData", None)
            each.pop("data", None)
        _valid(version, json.dumps(each, sort_keys=True))


def test_the_schemas_are_those_of_the_supported_versions() -> None:
    """The package has a schema of its own for each version. Otherwise it would use that of an older version."""
    deployment = one({}, "Deployment")
    assert [kubernetes_validate.validate(deployment, version, strict=True) for version in VERSIONS] == VERSIONS
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["kubeVersion"] == f">={VERSIONS[0]}.0-0"


def test_helm_lint_finds_nothing() -> None:
    """`helm lint` accepts the chart with its defaults and with everything."""
    for values in ({}, EVERYTHING):
        done = helm("lint", "--strict", str(CHART), values=values)
        assert done.returncode == 0, done.stdout + done.stderr


IGNORED = {
    "container-image-pull-policy": "the image may have been loaded into the nodes, and each image has its own tag",
    "container-ephemeral-storage-request-and-limit": "the root file system is read-only, and /tmp counts as memory",
    "deployment-has-host-podantiaffinity": "topologySpreadConstraints spread the pods over the nodes",
    "deployment-replicas": "the minimal Redis has one pod by design; that of the server has three",
    "deployment-strategy": "two minimal Redis servers would each have a part of the data",
    "deployment-has-poddisruptionbudget": "the minimal Redis has one pod, which the drain of a node may stop",
}
"""Rules of kube-score that the chart does not follow, and the reason."""


@pytest.mark.needs("kube-score")
def test_kube_score_finds_nothing(tmp_path: Path) -> None:
    """The objects follow the rules of kube-score: limits, probes, network policies, no root, and so on."""
    file = tmp_path / "all.yaml"
    values = {**EVERYTHING, "serviceMonitor": {"enabled": False}, "prometheusRule": {"enabled": False}}
    file.write_text(text(values))
    ignored = [option for rule in IGNORED for option in ("--ignore-test", rule)]
    command = ["kube-score", "score", str(file), "--kubernetes-version", "v1.31", "--output-format", "ci", *ignored]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    problems = [line for line in done.stdout.splitlines() if line.startswith(("[CRITICAL]", "[WARNING]"))]
    assert (problems, done.returncode) == ([], 0), done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("defaults", "Deployment"),
        ("cpu", "HorizontalPodAutoscaler"),
        ("custom", "HorizontalPodAutoscaler"),
        ("keda", "ScaledObject"),
        ("route", "HTTPRoute"),
        ("ingress", "Ingress"),
    ],
)
def test_the_object_is_the_golden_one(name: str, kind: str) -> None:
    """The object is the one in `golden/`. `GOLDEN=write` writes the file after a change that is intended."""
    found = yaml.safe_dump(one(MATRIX[name], kind), sort_keys=False)
    file = GOLDEN / f"{name}-{kind.lower()}.yaml"
    if os.environ.get("GOLDEN") == "write":
        file.write_text(found)
    assert file.read_text() == found


def test_the_chart_and_the_stack_agree() -> None:
    """The chart has the settings, the limits and the protection of stack.yml."""
    swarm: Object = yaml.safe_load((ROOT / "stack.yml").read_text())["services"]["mcp"]
    deployment = one({}, "Deployment")
    here = settings(deployment)
    for variable, value in swarm["environment"].items():
        default = re.sub(r"\$\{\w+:-(.*)\}", r"\1", str(value))
        other = ("MCP_NAME", "LOG_FORMAT", "DRAIN_SECONDS", "KEEP_ALIVE_SECONDS", "REPLICAS_DNS")
        if variable not in other and default:
            assert here[variable] == default, variable
    assert float(here["DRAIN_SECONDS"]) >= 20, "a busy node sends connections to a removed pod for more than 10 s"
    assert float(here["KEEP_ALIVE_SECONDS"]) > 90, "a gateway must close an idle connection earlier; Traefik needs 90 s"
    (container,) = pod(deployment)["containers"]
    assert container["resources"]["limits"] == {"cpu": "1", "memory": "512Mi"}
    assert swarm["deploy"]["resources"]["limits"] == {"cpus": "1.0", "memory": "512M"}
    tmp, _ = pod(deployment)["volumes"]
    assert tmp["emptyDir"] == {"medium": "Memory", "sizeLimit": f"{swarm['volumes'][0]['tmpfs']['size'] >> 20}Mi"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": swarm["cap_drop"]},
    }
    user = int(re.findall(r"^USER (\d+):", (ROOT / "server" / "Dockerfile").read_text(), re.MULTILINE)[0])
    security = pod(deployment)["securityContext"]
    assert (security["runAsNonRoot"], security["runAsUser"], security["fsGroup"]) == (True, user, user)
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}


@pytest.mark.parametrize("name", EVERY)
def test_a_pod_has_time_to_drain(name: str) -> None:
    """Kubernetes kills a pod only after its drain and its grace, and no pod gets a token or variables of Services."""
    for each in objects(EVERY[name]):
        if each["kind"] == "Deployment":
            spec = pod(each)
            assert (spec["enableServiceLinks"], spec["automountServiceAccountToken"]) == (False, False)
            given = settings(each) if "redis" not in each["metadata"]["name"] else {}
            stop = float(given.get("DRAIN_SECONDS", 0)) + float(given.get("SHUTDOWN_GRACE_SECONDS", 0))
            assert spec.get("terminationGracePeriodSeconds", 30) >= stop + 10 or not given
    rolling = one(MATRIX["cpu"], "Deployment")["spec"]["strategy"]["rollingUpdate"]
    assert rolling == {"maxSurge": 1, "maxUnavailable": 0}


def test_only_an_autoscaler_or_the_deployment_has_the_number() -> None:
    """With autoscaling, the Deployment has no number of replicas, and MCP_REPLICAS says that there are several."""
    assert one({"replicaCount": 4}, "Deployment")["spec"]["replicas"] == 4
    assert settings(one({"replicaCount": 4}, "Deployment"))["MCP_REPLICAS"] == "4"
    for name in ("cpu", "custom", "keda"):
        deployment = one(MATRIX[name], "Deployment")
        assert "replicas" not in deployment["spec"]
        assert settings(deployment)["MCP_REPLICAS"] == "2"
    for name in ("worker-cpu", "worker-custom", "worker-keda"):
        assert "replicas" not in one(MATRIX[name], "Deployment", "shop-anyreplica-worker")["spec"]


def test_replicas_find_each_other_by_the_headless_service() -> None:
    """REPLICAS_DNS is the name of a Service that resolves to each replica, and no Service has affinity."""
    name = settings(one({}, "Deployment"))["REPLICAS_DNS"]
    headless, front = one({}, "Service", name), one({}, "Service")
    labels = one({}, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert headless["spec"]["clusterIP"] == "None"
    assert front["spec"]["sessionAffinity"] == "None"
    for service in (headless, front):
        assert service["spec"]["selector"].items() <= labels.items()


def test_the_port_of_the_nodes_can_be_chosen() -> None:
    """By default, Kubernetes chooses the port of type NodePort."""
    for given, known in (({}, {}), ({"nodePort": 30150}, {"nodePort": 30150})):
        (port,) = one({"service": {"type": "NodePort", **given}}, "Service")["spec"]["ports"]
        assert {key: value for key, value in port.items() if key == "nodePort"} == known


def test_settings_are_written_as_they_were_given() -> None:
    """A large number keeps its digits, null removes a default, and a setting of your own reaches the pod."""
    given = settings(one(MATRIX["pod"], "Deployment", "shop"))
    assert given["MAX_BODY_BYTES"] == "67108864"
    assert (given["OWN_SETTING"], given["DRAIN_SECONDS"]) == ("true", "2.5")
    assert "LOG_LEVEL" not in given
    assert one(MATRIX["pod"], "Deployment", "shop")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 38


def test_secrets_are_files() -> None:
    """Secrets are mounted as files in SECRETS_DIR. The chart keeps its own Secret with the keys."""
    deployment = one(MATRIX["worker-keda"], "Deployment", "shop-anyreplica-worker")
    _, volume = pod(deployment)["volumes"]
    assert [source["secret"]["name"] for source in volume["projected"]["sources"]] == [
        "shop-anyreplica-keys",
        "shop-anyreplica-redis",
    ]
    (container,) = pod(deployment)["containers"]
    assert container["command"] == ["python", "-m", "server", "worker"]
    (mount,) = [each for each in container["volumeMounts"] if each["name"] == "secrets"]
    assert mount["mountPath"] == settings(deployment)["SECRETS_DIR"]
    secret = one({}, "Secret", "shop-anyreplica-keys")
    assert secret["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    existing = MATRIX["worker-custom"]
    assert not [each for each in objects(existing) if each["kind"] == "Secret"]
    rendered = text({**EVERYTHING, "redis": {"minimal": {"enabled": True}}})
    assert not re.search(r"name: (REDIS_URL|JOBS_URL|REQUEST_STATE_KEYS)\b", rendered)


DNS = (53, 5353)


def test_pods_spread_over_nodes_with_and_without_zones() -> None:
    """Only the host name is a constraint: a node without the label of a second one would not count for any of them.

    So a label of zones is a preference, which rules of an operator replace.
    """
    spec = pod(one({}, "Deployment"))
    (constraint,) = spec["topologySpreadConstraints"]
    assert (constraint["topologyKey"], constraint["nodeTaintsPolicy"]) == ("kubernetes.io/hostname", "Honor")
    (zones,) = spec["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert zones["podAffinityTerm"]["topologyKey"] == "topology.kubernetes.io/zone"
    assert zones["podAffinityTerm"]["labelSelector"] == constraint["labelSelector"]
    assert pod(one(MATRIX["pod"], "Deployment", "shop"))["affinity"] == {"nodeAffinity": {}}


def test_the_pods_of_a_lost_node_are_replaced_soon() -> None:
    """A pod tolerates the loss of its node for `pod.lostNodeSeconds`; Kubernetes' default would be 300 s."""
    values = {"pod": {"lostNodeSeconds": 7, "tolerations": [{"key": "shop", "operator": "Exists"}]}}
    *lost, own = pod(one(values, "Deployment"))["tolerations"]
    assert {each["key"] for each in lost} == {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}
    assert {each["tolerationSeconds"] for each in lost} == {7}
    assert own == {"key": "shop", "operator": "Exists"}


@pytest.mark.parametrize("name", ["shop-anyreplica", "shop-anyreplica-worker"])
def test_a_start_may_take_three_minutes(name: str) -> None:
    """Where many pods start at once, a start took more than a minute. The probe must not kill such a pod."""
    (container,) = pod(one(MATRIX["worker"], "Deployment", name))["containers"]
    probe = container["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] == 180


def test_the_minimal_redis_follows_the_rules_of_the_pods() -> None:
    """It gets signals itself, pulls its image with the same login, and runs on the same nodes.

    It requests CPU time. With a smaller request, it was too slow for its replicas on a node where other pods started.
    """
    values = {**MATRIX["pod"], "redis": {"minimal": {"enabled": True}}}
    spec = pod(one(values, "Deployment", "shop-redis"))
    assert (spec["nodeSelector"], spec["imagePullSecrets"]) == ({"disk": "ssd"}, [{"name": "login"}])
    assert spec["tolerations"] == values["pod"]["tolerations"]
    (container,) = spec["containers"]
    assert container["args"][0].startswith("exec redis-server ")
    assert container["resources"]["requests"]["cpu"] == "100m"


def test_redis_by_url() -> None:
    """The URL becomes REDIS_URL, and JOBS_URL only with workers. The network policy allows its port."""
    url = MATRIX["worker"]["redis"]["url"]
    with_worker = settings(one(MATRIX["worker"], "Deployment"))
    assert (with_worker["REDIS_URL"], with_worker["JOBS_URL"]) == (url, url)
    assert "JOBS_URL" not in settings(one({"redis": {"url": url}}, "Deployment"))
    egress = one(MATRIX["network"], "NetworkPolicy", "shop-anyreplica-replica")["spec"]["egress"]
    assert {port["port"] for rule in egress for port in rule["ports"]} == {*DNS, 6380, 443}
    for url, allowed in (("redis://[fd00::7]:6381/0", 6381), ("redis://[fd00::7]/0", 6379)):
        ipv6 = {"networkPolicy": {"enabled": True}, "redis": {"url": url}}
        egress = one(ipv6, "NetworkPolicy", "shop-anyreplica-replica")["spec"]["egress"]
        assert {port["port"] for rule in egress for port in rule["ports"]} == {*DNS, allowed}


def test_the_chart_fits_a_cluster_with_ipv6_only() -> None:
    """The chart names no address of IPv4 and leaves the family of its Services to the cluster; the image has both.

    The policies of the test's own values name an address.
    """
    for name in EVERY.keys() - {"network", "everything"}:
        assert not re.search(r"\d+\.\d+\.\d+\.\d+|localhost|hostIP|ipFamil", text(EVERY[name])), name
    assert "MCP_HOST" not in settings(one({}, "Deployment"))
    assert re.search(r"^ +MCP_HOST=:: \\$", (ROOT / "server" / "Dockerfile").read_text(), re.MULTILINE)


def test_event_streams_pass_the_ingress_and_the_route() -> None:
    """Neither buffers or ends an event stream, and /metrics is not reachable."""
    ingress = one(MATRIX["ingress"], "Ingress")
    free = one({"ingress": {**MATRIX["ingress"]["ingress"], "pathType": "ImplementationSpecific"}}, "Ingress")
    for found, kind in ((ingress, "Prefix"), (free, "ImplementationSpecific")):
        assert {path["pathType"] for path in found["spec"]["rules"][0]["http"]["paths"]} == {kind}
    prefix = "nginx.ingress.kubernetes.io/"
    notes = {key.removeprefix(prefix): value for key, value in ingress["metadata"]["annotations"].items()}
    assert notes["proxy-buffering"] == "off"
    assert int(notes["proxy-read-timeout"]) >= 3600
    assert notes["proxy-body-size"] == "4194304"
    (rule,) = ingress["spec"]["rules"]
    paths = [each["path"] for each in rule["http"]["paths"]]
    removed = {"ingress": {**MATRIX["ingress"]["ingress"], "annotations": {f"{prefix}proxy-buffering": None}}}
    assert f"{prefix}proxy-buffering" not in one(removed, "Ingress")["metadata"]["annotations"]
    route = one(MATRIX["route"], "HTTPRoute")["spec"]
    (rule,) = route["rules"]
    assert rule["timeouts"] == {"request": "0s", "backendRequest": "0s"}
    assert rule["backendRefs"] == [{"name": "shop-anyreplica", "port": 80}]
    assert [each["path"]["value"] for each in rule["matches"]] == paths == ["/mcp", "/jobs", "/.well-known"]
    assert (route["parentRefs"], route["hostnames"]) == ([{"name": "public"}], ["mcp.example.com"])


def test_scaled_objects_ask_for_metrics_that_exist() -> None:
    """KEDA and the autoscaler use names of docs/reference/metrics.md, and the limits of the values."""
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    for values, name in ((MATRIX["keda"], "shop-anyreplica"), (MATRIX["worker-keda"], "shop-anyreplica-worker")):
        spec = one(values, "ScaledObject", name)["spec"]
        assert spec["scaleTargetRef"]["name"] == name
        assert spec["minReplicaCount"] <= spec["maxReplicaCount"] == 10
        (trigger,) = spec["triggers"]
        assert (trigger["type"], trigger["metricType"]) == ("prometheus", "AverageValue")
        assert trigger["metadata"].keys() == {"serverAddress", "query", "threshold"}
        for metric in re.findall(r"mcp_\w+", trigger["metadata"]["query"]):
            assert f"`{metric}`" in page
    (metric,) = one(MATRIX["custom"], "HorizontalPodAutoscaler")["spec"]["metrics"]
    assert f"`{metric['pods']['metric']['name']}`" in page
    (metric,) = one(MATRIX["worker-custom"], "HorizontalPodAutoscaler", "shop-anyreplica-worker")["spec"]["metrics"]
    guide = (ROOT / "docs" / "guides" / "deploy-to-kubernetes.md").read_text()
    assert f"as: {metric['external']['metric']['name']}" in guide


def test_prometheus_finds_each_replica() -> None:
    """The ServiceMonitor selects the headless Service alone, sends the token, and names the job of the dashboards."""
    found = {(each["kind"], each["metadata"]["name"]): each for each in objects(MATRIX["monitoring"])}
    spec = found["ServiceMonitor", "shop-anyreplica"]["spec"]
    wanted = spec["selector"]["matchLabels"].items()
    selected = [
        name
        for (kind, name), each in found.items()
        if kind == "Service"
        if wanted <= each["metadata"]["labels"].items()
    ]
    assert selected == ["shop-anyreplica-replicas"]
    (endpoint,) = spec["endpoints"]
    assert endpoint["authorization"] == {"credentials": {"name": "token", "key": "metrics_token"}}
    assert endpoint["relabelings"] == [{"targetLabel": "job", "replacement": "mcp"}]
    groups = found["PrometheusRule", "shop-anyreplica"]["spec"]["groups"]
    alerts = yaml.safe_load((ROOT / "deploy" / "observability" / "alerts.yml").read_text())["groups"]
    # An HPA or KEDA scales the pods, and not the autoscaler of the Swarm.
    scaled = '(max(mcp_autoscale_replicas{service=~"(.+_)?mcp"}) or max(mcp_replicas))'
    wanted = [[rule["expr"].replace(scaled, "max(mcp_replicas)") for rule in each["rules"]] for each in alerts]
    assert [[rule["expr"] for rule in each["rules"]] for each in groups] == [
        [expr for expr in each if "mcp_autoscale_" not in expr] for each in wanted
    ]
    maps = {name: each for (kind, name), each in found.items() if kind == "ConfigMap"}
    assert len(maps) == len(list((ROOT / "deploy" / "observability" / "grafana" / "dashboards").glob("*.json")))
    for each in maps.values():
        assert each["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert all(json.loads(content)["uid"].startswith("mcp-") for content in each["data"].values())


def test_dashboards_and_alerts_have_no_commands_of_a_swarm() -> None:
    """The texts of the dashboards and the alerts name commands that exist in a Kubernetes cluster."""
    for file in (CHART / "alerts.yml", *(CHART / "dashboards").glob("*.json")):
        odd = re.search(
            r"docker|make (?:re)?deploy|stack\.yml|manager node|\bmesh\b|WORKERS|edge\.yml", file.read_text()
        )
        assert odd is None, f"{file.name}: {odd}"


def test_the_example_of_external_secrets_has_what_a_replica_needs() -> None:
    """The example writes the Secret that its comment names, with the keys."""
    example = yaml.safe_load((CHART / "examples" / "external-secret.yaml").read_text())
    assert (example["apiVersion"], example["kind"]) == ("external-secrets.io/v1", "ExternalSecret")
    assert example["spec"]["target"]["name"] == "anyreplica-secrets"
    assert "request_state_keys" in {each["secretKey"] for each in example["spec"]["data"]}


def test_the_environment_of_a_pod_starts_a_replica(start_server: StartServer, tmp_path: Path) -> None:
    """A replica starts with the variables and the secret files of the rendered pod, and serves all sample components.

    Only the port and the folders are those of this machine.
    """
    given = settings(one({}, "Deployment"))
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "request_state_keys").write_text(KEYS)
    changed = {"SECRETS_DIR": str(secrets), "REPLICAS_DNS": "localhost", "DRAIN_SECONDS": "0"}
    server: Server = start_server(command=("-m", "server"), **{**given, **changed})
    assert settings(one({}, "Deployment"))["MCP_NAME"] == "shop-anyreplica"
    checked = run(sys.executable, "test_mcp_client.py", "--url", f"{server.url}/mcp", "--rapid", "10")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "All steps passed." in checked.stdout


def test_the_version_is_that_of_the_package() -> None:
    """The chart's appVersion is the version of anyreplica."""
    from anyreplica import __version__

    chart: dict[str, Any] = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == __version__
