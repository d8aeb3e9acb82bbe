"""The replicas renew the tokens of the identity provider together."""

import time
from pathlib import Path

import pytest

from tests.auth.login.fleets import logins
from tests.auth.login.flow import OAuthClient
from tests.auth.login.test_replay import at_once
from tests.calls import legacy

pytestmark = [pytest.mark.servers, pytest.mark.slow, pytest.mark.needs("node"), pytest.mark.needs("redis")]

SECONDS = 3
"""Lifetime of an access token of the identity provider, in seconds."""


def test_only_one_replica_renews_a_token(tmp_path: Path) -> None:
    """Requests at all replicas find an expired token of the identity provider. One of them renews it.

    The identity provider ends the whole login if it gets the same refresh token twice.
    """
    with logins(tmp_path, 3, SECONDS, TOKEN_SECONDS="3600") as fleet:
        token = OAuthClient(fleet.url).log_in(fleet.url)["access_token"]
        for _ in range(3):
            time.sleep(SECONDS + 1)
            replies = at_once(fleet.urls * 4, lambda url: legacy(url, "ping", {}, Authorization=f"Bearer {token}"))
            assert [reply.status_code for reply in replies] == [200] * 12
