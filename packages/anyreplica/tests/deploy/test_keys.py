"""Tests of API keys in a stack: the result of merging `deploy/keys.yml`."""

import pytest

from tests.deploy.test_jobs import merged, secrets_of

pytestmark = [pytest.mark.servers, pytest.mark.needs("docker")]


def test_the_secret_is_where_the_setting_looks() -> None:
    """The setting has the secret's path, which does not depend on the secret's name.

    Therefore another secret can replace it.
    """
    stack = merged("deploy/keys.yml")
    service = stack["services"]["mcp"]
    assert service["environment"]["API_KEYS_FILE"] == "/run/secrets/api_keys"
    assert service["environment"]["AUTH_ENABLED"] == "true"
    assert secrets_of(service) == {"request_state_keys", "api_keys"}
    assert next(each["target"] for each in service["secrets"] if each["source"] == "api_keys") == "api_keys"
    assert stack["secrets"]["api_keys"] == {"external": True, "name": "api_keys"}
    assert merged("deploy/keys.yml", API_KEYS_SECRET="api_keys_2")["secrets"]["api_keys"]["name"] == "api_keys_2"
