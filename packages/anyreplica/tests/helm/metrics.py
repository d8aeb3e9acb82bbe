"""The metrics APIs that the metrics server and the Prometheus adapter add to a cluster, with values that tests set."""

import datetime
import json
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from conftest import free_port

Object = dict[str, Any]
Amounts = dict[str, str]
"""The amount of each pod, or of the whole namespace under the name ""."""

_KINDS = {
    "metrics.k8s.io/v1beta1": ("pods", "PodMetrics"),
    "custom.metrics.k8s.io/v1beta2": ("pods/mcp_requests_in_flight", "MetricValueList"),
    "external.metrics.k8s.io/v1beta1": ("mcp_jobs_unfinished", "ExternalMetricValueList"),
}


class Metrics:
    """A server of the three metrics APIs.

    Args:
        certificate: the file with its certificate.
        key: the file with the key of the certificate.
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        self.port = free_port()
        self.values: dict[tuple[str, str], Callable[[], Amounts]] = {}
        """For each namespace and metric, a function that returns the amounts now."""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = outer._answer(self.path.partition("?")[0])
                content = json.dumps(found).encode()
                self.send_response(404 if found is None else 200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def objects(self) -> list[Object]:
        """Return the objects that make the API server ask this server."""
        space = "kube-system"
        service: Object = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "metrics", "namespace": space}}
        service["spec"] = {"type": "ExternalName", "externalName": "localhost"}
        found = [service]
        for each in _KINDS:
            group, version = each.split("/")
            spec = {"group": group, "version": version, "groupPriorityMinimum": 100, "versionPriority": 100}
            spec |= {"service": {"namespace": space, "name": "metrics", "port": self.port}}
            spec |= {"insecureSkipTLSVerify": True}
            name = {"name": f"{version}.{group}"}
            found.append(
                {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": name, "spec": spec}
            )
        return found

    def _answer(self, path: str) -> Object | None:
        _, _, *parts = path.split("/")
        group, rest = "/".join(parts[:2]), parts[2:]
        if group not in _KINDS:
            return None
        if not rest:
            name, kind = _KINDS[group]
            resource = {"name": name, "singularName": "", "namespaced": True, "kind": kind, "verbs": ["get", "list"]}
            return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group, "resources": [resource]}
        _, namespace, *_, metric = rest  # namespaces/NAMESPACE/pods/*/METRIC, namespaces/NAMESPACE/METRIC
        amounts = self.values.get((namespace, metric))
        if amounts is None:
            return None
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        items = [_item(group, namespace, metric, pod, amount, now) for pod, amount in amounts().items()]
        kind = "PodMetricsList" if metric == "pods" else _KINDS[group][1]
        return {"kind": kind, "apiVersion": group, "metadata": {}, "items": items}


def _item(group: str, namespace: str, metric: str, pod: str, amount: str, now: str) -> Object:
    if group.startswith("external."):
        return {"metricName": metric, "metricLabels": {}, "timestamp": now, "value": amount}
    if group.startswith("custom."):
        described = {"kind": "Pod", "apiVersion": "/v1", "namespace": namespace, "name": pod}
        return {"describedObject": described, "metric": {"name": metric}, "timestamp": now, "value": amount}
    usage = {"cpu": amount, "memory": "100Mi"}
    metadata = {"name": pod, "namespace": namespace}
    return {"metadata": metadata, "timestamp": now, "window": "30s", "containers": [{"name": "any", "usage": usage}]}
