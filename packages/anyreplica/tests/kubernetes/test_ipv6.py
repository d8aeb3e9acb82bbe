"""The chart in a cluster that has IPv6 only: `CLUSTER_FAMILY=6 .ci/cluster up`.

The other tests of the cluster run there, too, except for those of the ingress: the kit forwards its port for IPv4 only.
"""

import ipaddress
import json

import pytest

from tests.kubernetes.release import NAME, Release, kubectl

pytestmark = [
    pytest.mark.needs("cluster"),
    pytest.mark.needs("ipv6-cluster"),
    pytest.mark.timeout(900),
    pytest.mark.slow,
]


def version(address: str) -> int:
    """Return the version of the protocol of an address."""
    return ipaddress.ip_address(address).version


def test_nodes_pods_and_services_have_ipv6_only(release: Release) -> None:
    """The cluster knows no address of IPv4, and a container has no route of IPv4."""
    release.wait()
    nodes = json.loads(kubectl("get", "nodes", "--output", "json"))["items"]
    for node in nodes:
        addresses = [each["address"] for each in node["status"]["addresses"] if each["type"] != "Hostname"]
        assert [version(each) for each in addresses] == [6]
    for pod in release.pods():
        assert [version(each["ip"]) for each in pod["status"]["podIPs"]] == [6]
        heading, *routes = kubectl("exec", pod["metadata"]["name"], "--", "cat", "/proc/net/route").splitlines()
        assert heading.startswith("Iface")
        assert routes == []
    service = json.loads(kubectl("get", "service", NAME, "--output", "json"))["spec"]
    assert (service["ipFamilies"], version(service["clusterIP"])) == (["IPv6"], 6)
