"""Fixtures of the tests of the login."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.auth.login.browser import Browser
from tests.auth.login.fleets import LoginFleet, logins


@pytest.fixture(scope="package")
def login_fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginFleet]:
    """Three replicas with a login, for tests that neither kill a replica nor change the settings."""
    with logins(tmp_path_factory.mktemp("logins")) as fleet:
        yield fleet


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[LoginFleet]:
    """Three replicas with a login, for a test that kills or restarts replicas or their Redis."""
    with logins(tmp_path) as fleet:
        yield fleet


@pytest.fixture
def browser() -> Iterator[Browser]:
    """The browser of a user."""
    browser = Browser()
    yield browser
    browser.close()
