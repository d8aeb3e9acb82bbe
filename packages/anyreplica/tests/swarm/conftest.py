"""Fixtures: the stack that the tests of the Swarm share."""

import logging
import os
import subprocess
from collections.abc import Iterator

import pytest

from conftest import PACKAGE, ROOT
from tests.swarm import nodes
from tests.swarm.stack import IMAGE, Stack
from tests.template.test_image import docker

logger = logging.getLogger(__name__)


@pytest.fixture(autouse=True)
def whole_swarm() -> None:
    """Start crashed nodes again before each test, and log a warning for them."""
    if os.environ.get("SWARM_NODES") and (gone := nodes.revive()):
        logger.warning("Nodes that had crashed, and were started again: %s", gone)


@pytest.fixture(scope="session")
def images() -> None:
    """The images of `tests/swarm/Dockerfile`, built if the engine lacks them. Every node needs these images."""
    if not docker("images", "--quiet", f"{IMAGE}:crashing"):
        subprocess.run([PACKAGE / "tests" / "swarm" / "images.sh"], cwd=ROOT, check=True, capture_output=True)


@pytest.fixture(scope="session")
def stack(images: None) -> Iterator[Stack]:
    """The stack with three running replicas, deployed by `make deploy`."""
    deployed = Stack()
    try:
        deployed.deploy("good")
        deployed.wait("3/3", 400)
        yield deployed
    finally:
        deployed.make("undeploy")
