"""A test with the engine that `docker` reaches.

It has its own file, so that the fake engine of another test is never used instead.
"""

import os

import pytest
from fastmcp.exceptions import ToolError

from tests.examples.devops.conftest import opened

pytestmark = pytest.mark.servers


@pytest.mark.needs("docker")
def test_a_real_engine() -> None:
    """A real engine lists its services, or reports that it manages no Swarm."""
    with opened(os.environ.get("DOCKER_HOST", "")) as devops:
        try:
            found = devops.ask("list_deployments").deployments
        except ToolError as error:
            found = []
            assert str(error) == "The Docker engine at DOCKER_HOST is not a manager of a Swarm."  # noqa: PT017
        for each in found:
            assert devops.ask("check_service_status", service=each.name).name == each.name
