"""Renders the Helm chart with values, and returns its objects."""

import functools
import json
import subprocess
from collections.abc import Mapping
from typing import Any

import yaml

from conftest import ROOT

CHART = ROOT / "deploy" / "helm" / "anyreplica"
Object = dict[str, Any]

PROMETHEUS = "http://prometheus.monitoring:9090"
HOST = "mcp.example.com"
KEDA = {"mode": "keda", "prometheus": PROMETHEUS}
MATRIX: Mapping[str, Mapping[str, Any]] = {
    "defaults": {},
    "cpu": {"autoscaling": {"mode": "cpu"}},
    "custom": {"autoscaling": {"mode": "custom", "minReplicas": 1, "behavior": {"scaleDown": {"selectPolicy": "Min"}}}},
    "keda": {"autoscaling": KEDA},
    "worker": {"worker": {"enabled": True}, "redis": {"url": "redis://redis.example.com:6379/0"}},
    "worker-cpu": {
        "worker": {"enabled": True, "autoscaling": {"mode": "cpu"}},
        "redis": {"minimal": {"enabled": True}},
    },
    "worker-custom": {
        "worker": {"enabled": True, "autoscaling": {"mode": "custom"}},
        "secrets": {"existingSecret": "s"},
    },
    "worker-keda": {"worker": {"enabled": True, "autoscaling": KEDA}, "redis": {"minimal": {"enabled": True}}},
    "ingress": {"ingress": {"enabled": True, "className": "nginx", "hosts": [HOST], "tls": {"secretName": "tls"}}},
    "route": {"httpRoute": {"enabled": True, "parentRefs": [{"name": "public"}], "hostnames": [HOST]}},
    "network": {
        "networkPolicy": {
            "enabled": True,
            "from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "gateways"}}}],
            "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "ports": [{"port": 443}]}],
        },
        "redis": {"url": "redis://redis.example.com:6380/0"},
    },
    "monitoring": {
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}, "token": {"secretName": "token"}},
        "prometheusRule": {"enabled": True},
        "dashboards": {"enabled": True, "annotations": {"grafana_folder": "MCP"}},
    },
    "redis": {"redis": {"minimal": {"enabled": True}}},
    "traces": {"tracing": {"endpoint": "http://collector:4318"}},
    "pod": {
        "image": {"digest": f"sha256:{'0' * 64}", "pullSecrets": ["login"]},
        "names": {"fullName": "shop"},
        "env": {"MAX_BODY_BYTES": 67108864, "LOG_LEVEL": None, "OWN_SETTING": True, "DRAIN_SECONDS": 2.5},
        "extraEnv": [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "secrets": {"extraSecrets": ["more"]},
        "maxSurge": "50%",
        "podDisruptionBudget": {"maxUnavailable": "25%"},
        "service": {"type": "LoadBalancer", "annotations": {"a": "b"}},
        "topologySpread": {"whenUnsatisfiable": "DoNotSchedule"},
        "pod": {
            "serviceAccountName": "shop",
            "annotations": {"a": "b"},
            "labels": {"team": "shop"},
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "shop", "operator": "Exists"}],
            "affinity": {"nodeAffinity": {}},
            "priorityClassName": "high",
        },
    },
}
"""Values for each feature of the chart."""


def _merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    both = dict(first)
    for name, value in second.items():
        both[name] = _merged(both.get(name, {}), value) if isinstance(value, Mapping) else value
    return both


EVERYTHING = functools.reduce(
    _merged,
    (MATRIX[name] for name in ("cpu", "worker-keda", "ingress", "route", "monitoring", "traces", "pod")),
    {"networkPolicy": MATRIX["network"]["networkPolicy"]},
)


def helm(*arguments: str, values: Mapping[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
    """Run helm. The values go to its stdin."""
    command = ["helm", *arguments, *(() if values is None else ("--values", "-"))]
    given = json.dumps(values or {})
    return subprocess.run(command, input=given, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)


def text(values: Mapping[str, Any]) -> str:
    """Render the chart as text."""
    done = helm("template", "shop", str(CHART), "--namespace", "shops", values=values)
    assert done.returncode == 0, done.stderr
    return done.stdout


def objects(values: Mapping[str, Any]) -> list[Object]:
    """Render the chart, and return its objects."""
    return [found for found in yaml.safe_load_all(text(values)) if found]


def one(values: Mapping[str, Any], kind: str, name: str = "shop-anyreplica") -> Object:
    """Render the chart, and return the object of this kind and name."""
    (found,) = [each for each in objects(values) if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


def pod(deployment: Object) -> Object:
    """Return the pod that a Deployment creates."""
    found: Object = deployment["spec"]["template"]["spec"]
    return found


def settings(deployment: Object) -> dict[str, str]:
    """Return the variables with a value that a Deployment gives to its container."""
    (container,) = pod(deployment)["containers"]
    return {each["name"]: each["value"] for each in container["env"] if "value" in each}


def refusal(values: Mapping[str, Any]) -> str:
    """Return helm's message about values that it refuses."""
    done = helm("template", "shop", str(CHART), values=values)
    assert done.returncode != 0
    return done.stderr
