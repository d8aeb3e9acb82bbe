"""Fixtures: the release that the tests of the cluster share."""

import os
from collections.abc import Iterator

import pytest

from tests.kubernetes.release import Release, node_ready, start_node


@pytest.fixture(autouse=True)
def whole_cluster() -> None:
    """Start lost nodes again before each test."""
    if os.environ.get("CLUSTER_NODES"):
        for number in (1, 2, 3):
            if not node_ready(number):
                start_node(number)


@pytest.fixture(scope="session")
def release() -> Iterator[Release]:
    """The chart with three replicas."""
    installed = Release()
    try:
        installed.install("good")
        yield installed
    finally:
        installed.uninstall()
