"""API keys in Docker secrets, which cannot be changed: two updates replace an old key by a new one."""

import secrets
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from anyreplica.features.keys.key import hash_of
from conftest import until
from tests.calls import legacy
from tests.swarm.stack import Stack, failures, load
from tests.template.test_image import docker

pytestmark = [pytest.mark.needs("swarm"), pytest.mark.long, pytest.mark.timeout(900)]

PROTECTION = "AUTH_ENABLED API_KEYS_FILE"
"""Settings that deploy/keys.yml adds."""


@pytest.fixture
def names(tmp_path: Path) -> Iterator[list[str]]:
    """Names for three secrets, which are removed at the end."""
    made = [f"api_keys_{uuid.uuid4().hex[:8]}" for _ in range(3)]
    yield made
    for name in made:
        docker("secret", "rm", name, check=False)


def write(file: Path, *keys: str) -> None:
    """Write a file with the hashes of keys."""
    lines = [f'{{"id": "{key[:6]}", "hash": "{hash_of(key)}"}}' for key in keys]
    file.write_text("\n".join(lines) + "\n")


def keep(folder: Path, name: str, *keys: str) -> None:
    """Make a secret with the hashes of keys."""
    write(folder / name, *keys)
    docker("secret", "create", name, str(folder / name))


def test_keys_are_changed_without_a_lost_request(stack: Stack, tmp_path: Path, names: list[str]) -> None:
    """A change of keys loses no request: first both keys are valid, and then only the new one."""
    old, new = secrets.token_hex(32), secrets.token_hex(32)
    for name, keys in zip(names, [(old,), (old, new), (new,)], strict=True):
        keep(tmp_path, name, *keys)
    stack.settings["API_KEYS_SECRET"] = names[0]
    try:
        stack.deploy("good", "OVERLAYS=deploy/keys.yml")
        assert legacy(stack.url, "tools/list").status_code == 401
        with load(stack.url, tmp_path, 10, call=("--token", old)) as before:
            stack.deploy("good", f"API_KEYS_SECRET={names[1]}")
            with load(stack.url, tmp_path, 10, call=("--token", new)) as after:
                after.wait_for(30)
                figures = before.stop()
                stack.deploy("good", f"API_KEYS_SECRET={names[2]}")
                figures += after.stop()
        assert not failures(figures)
        for _ in range(6):  # one call for each replica in turn
            assert legacy(stack.url, "tools/list", Authorization=f"Bearer {old}").status_code == 401
            assert legacy(stack.url, "tools/list", Authorization=f"Bearer {new}").status_code == 200
    finally:
        del stack.settings["API_KEYS_SECRET"]
        stack.deploy("good", "OVERLAYS=", f"ALLOW_DROP={PROTECTION}")
        until(lambda: legacy(stack.url, "tools/list").status_code == 200, "the stack answers without a key")
