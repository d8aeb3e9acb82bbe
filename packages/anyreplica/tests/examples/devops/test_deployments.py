"""Tests of the deployment tools: they show what runs and what failed, and no other data of the engine."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from conftest import StartServer
from tests.calls import call, legacy, text
from tests.examples.devops.conftest import Devops, Engine
from tests.examples.devops.swarm import SECRET, SWARM, service, task

pytestmark = pytest.mark.slow

NO_NAMES = ["", "a/b", "../info", "a b", "a\n", "a?x=1", "a%2fb", '"]}', "-a", ".", "é", "a" * 64, "a\0"]


def test_the_list_of_deployments(devops: Devops, engine: Engine) -> None:
    """The list of deployments is sorted by name and has short image names."""
    engine.asked()
    found = devops.ask("list_deployments")
    assert [(each.name, each.image, each.running, each.desired, each.update) for each in found.deployments] == [
        ("agent", "", 1, 1, None),
        ("api", "shop/api:1.2", 1, 2, "paused"),
        ("web", "shop/web:1.2", 3, 3, "completed"),
        ("web-admin", "shop/web-admin:1.2", 0, 0, None),
    ]
    assert found.deployments[0].updated_at == datetime(2026, 2, 3, 4, 5, 6, 123456, tzinfo=UTC)
    assert found.complete
    assert engine.asked() == ["GET /v1.44/services?status=true&filters=%7B%7D"]


def test_a_healthy_service(devops: Devops, engine: Engine) -> None:
    """A healthy service is reported as healthy.

    A service with a similar name is not confused with it.
    """
    engine.asked()
    web = devops.ask("check_service_status", service="web")
    assert (web.healthy, web.failures, web.update_message) == (True, [], "update completed")
    assert [line.partition("?")[0] for line in engine.asked()] == ["GET /v1.44/services", "GET /v1.44/tasks"]
    assert devops.ask("check_service_status", service="web-admin").healthy


def test_an_unhealthy_service(devops: Devops) -> None:
    """An unhealthy service has its last errors, the newest first, each as one shortened line."""
    api = devops.ask("check_service_status", service="api")
    assert not api.healthy
    assert (api.running, api.desired, api.update) == (1, 2, "paused")
    assert api.update_message.startswith("update paused: task")
    assert [(each.state, each.error[:20]) for each in api.failures] == [
        ("pending", "no suitable node (in"),
        ("rejected", "No such image: [31m "),
        *(("failed", f"task: non-zero exit ({number})"[:20]) for number in (16, 15, 14)),
    ]
    for line in (api.update_message, *(each.error for each in api.failures)):
        assert line.isprintable()
        assert len(line) <= 200


@pytest.mark.parametrize(
    ("update", "healthy"),
    [
        (None, True),
        *((state, True) for state in ("completed", "updating")),
        *((state, False) for state in ("paused", "rollback_started", "rollback_paused", "rollback_completed")),
    ],
)
def test_health_and_updates(devops: Devops, engine: Engine, update: str | None, healthy: bool) -> None:
    """A service with a paused or rolled back update is unhealthy, even if all tasks run."""
    engine.swarm = {"services": [service("a", 1, 1, {"State": update} if update else None)], "tasks": []}
    try:
        assert devops.ask("check_service_status", service="a").healthy is healthy
    finally:
        engine.swarm = SWARM


def test_many_services(devops: Devops, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of many services is cut, and says that it is incomplete."""
    monkeypatch.setattr(devops.module, "_MOST_FOUND", 2)
    found = devops.ask("list_deployments")
    assert [each.name for each in found.deployments] == ["agent", "api"]
    assert not found.complete


@pytest.mark.parametrize("name", NO_NAMES)
def test_an_invalid_name_is_refused(devops: Devops, engine: Engine, name: str) -> None:
    """An invalid name is refused without a request to the engine."""
    engine.asked()
    with pytest.raises(ValidationError):
        devops.ask("check_service_status", service=name)
    assert engine.asked() == []


NAMES = st.text('ab/.-_%"\\{}[]?&#\0\n é', max_size=8) | st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,70}")


@settings(max_examples=100, deadline=None)
@given(name=NAMES)
@example(name="we")
@example(name="id-of-web")
def test_no_name_leads_elsewhere(devops: Devops, engine: Engine, name: str) -> None:
    """For a name that no service has, the pack sends no request, or only a request for the list of services."""
    engine.asked()
    try:
        assert (
            devops.refusal("check_service_status", service=name)
            == f"The service {name!r} does not exist; list_deployments lists the services."
        )
    except ValidationError:
        assert engine.asked() == []
    else:
        (asked,) = engine.asked()
        assert asked.startswith("GET /v1.44/services?status=true&filters=%7B%22name%22")


def test_a_replica_serves_the_pack(engine: Engine, start_server: StartServer) -> None:
    """No reply and no log line contains secret data of the Swarm, and no caller can change the Swarm."""
    engine.asked()
    replica = start_server(MCP_COMPONENTS="examples.devops", DOCKER_HOST=engine.url, LOG_LEVEL="DEBUG")
    tools = {each["name"]: each for each in legacy(replica.url, "tools/list").json()["result"]["tools"]}
    assert tools.keys() == {"list_deployments", "check_service_status"}
    assert "healthy" in tools["check_service_status"]["outputSchema"]["required"]
    replies: list[Any] = [call(replica.url, "list_deployments")]
    replies += [call(replica.url, "check_service_status", {"service": name}) for name in ("web", "web-admin", "api")]
    assert not any(reply["isError"] for reply in replies if "isError" in reply)
    assert replies[3]["structuredContent"]["failures"][0]["state"] == "pending"
    for name in (*NO_NAMES, "nothing", None, 1, ["web"], {"web": 1}):
        reply = call(replica.url, "check_service_status", {"service": name})
        assert reply["isError"], name
        replies.append(reply)
    assert (
        text(call(replica.url, "check_service_status", {"service": "we"}))
        == "The service 'we' does not exist; list_deployments lists the services."
    )
    engine.swarm = {"services": [{"ID": SECRET, "Spec": {"Name": SECRET}}], "tasks": []}
    try:
        replies.append(call(replica.url, "list_deployments"))
    finally:
        engine.swarm = SWARM
    assert "not a list in the expected form" in text(replies[-1])
    replica.stop()
    assert SECRET not in str(replies) + replica.output
    assert "Traceback" not in replica.output
    assert {line.split("?")[0] for line in engine.asked()} == {"GET /v1.44/services", "GET /v1.44/tasks"}


def test_the_swarm_of_these_tests_is_full_of_secrets() -> None:
    """The Swarm of these tests contains many secrets, so that a leak would show."""
    assert str(service("a", 1, 1)).count(SECRET) > 10
    assert str(task("a", 1, "failed")).count(SECRET) > 3
