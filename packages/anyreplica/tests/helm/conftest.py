"""Fixtures of the tests that need an API server."""

import itertools
from collections.abc import Iterator

import pytest

from tests.helm.cluster import Cluster, running

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster for all tests."""
    with running(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture
def namespace(cluster: Cluster) -> str:
    """A new namespace, with what the values `pod` of the matrix need in a cluster."""
    made = cluster.make_namespace(f"shops-{next(_NUMBERS)}")
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "shop"}}
    cluster.apply(account, made).raise_for_status()
    priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
    cluster.apply(priority).raise_for_status()
    return made
