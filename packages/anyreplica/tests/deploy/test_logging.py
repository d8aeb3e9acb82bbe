"""Tests of the logs of containers: no container of a stack may fill the disk of its node."""

import re
from pathlib import Path

import pytest
import yaml

from conftest import ROOT, SOURCE

STACKS = [ROOT / "stack.yml", *sorted((ROOT / "deploy").glob("*.yml")), SOURCE / "cli/init/stack.yml.template"]
SIZES = {"k": 2**10, "m": 2**20, "g": 2**30}
MOST_BYTES = 50 * 2**20
"""The size of the log of one container, as the changelog promises."""


@pytest.mark.parametrize("file", STACKS, ids=lambda file: file.name)
def test_the_log_of_each_container_is_limited(file: Path) -> None:
    """Docker rotates the log of each container. A service without an image only adds to that of another file."""
    for name, service in yaml.safe_load(file.read_text())["services"].items():
        if "image" not in service:
            assert file.name not in ("stack.yml", "stack.yml.template")
            continue
        logging = service["logging"]
        assert logging["driver"] == "json-file", name
        size = re.fullmatch(r"(\d+)([kmg])", logging["options"]["max-size"])
        assert size, name
        assert int(size[1]) * SIZES[size[2]] * int(logging["options"]["max-file"]) <= MOST_BYTES, name


def test_each_overlay_is_tested() -> None:
    """Several overlays bring services of their own."""
    own = [file for file in STACKS if re.search(r"^    image:", file.read_text(), re.MULTILINE)]
    assert {"stack.yml", "jobs.yml", "edge.yml", "autoscale.yml", "observability.yml"} <= {file.name for file in own}
