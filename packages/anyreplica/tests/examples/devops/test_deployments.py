"""Tests of the deployment tools: they show what runs and what failed, and no other data of the engine."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from conftest import StartServer, generated
from tests.calls import call, legacy, text
from tests.examples.devops.conftest import Devops, Engine
from tests.examples.devops.swarm import SECRET, SWARM, service, task

pytestmark = pytest.mark.slow

NO_NAMES = ["", "a/b", "../info", "a b", "a\n", "a?x=1", "a%2fb", '"]}', "-a", ".", "é", "a" * 64, "a\0"]


def test_the_list_of_deployments(devops: Devops, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list is sorted by name, has short image names, and says if it was cut."""
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
    monkeypatch.setattr(devops.module, "_MOST_FOUND", 2)
    found = devops.ask("list_deployments")
    assert ([each.name for each in found.deployments], found.complete) == (["agent", "api"], False)


def test_healthy_and_unhealthy_services(devops: Devops, engine: Engine) -> None:
    """A service is not confused with a similar name; an unhealthy one has its last errors as shortened lines."""
    engine.asked()
    web = devops.ask("check_service_status", service="web")
    assert (web.healthy, web.failures, web.update_message) == (True, [], "update completed")
    assert [line.partition("?")[0] for line in engine.asked()] == ["GET /v1.44/services", "GET /v1.44/tasks"]
    assert devops.ask("check_service_status", service="web-admin").healthy
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


HEALTHY = [None, "completed", "updating"]
UNHEALTHY = ["paused", "rollback_started", "rollback_paused", "rollback_completed"]


@pytest.mark.parametrize("update", [*HEALTHY, *UNHEALTHY])
def test_health_and_updates(devops: Devops, engine: Engine, update: str | None) -> None:
    """A service with a paused or rolled back update is unhealthy, even if all tasks run."""
    engine.swarm = {"services": [service("a", 1, 1, {"State": update} if update else None)], "tasks": []}
    try:
        assert devops.ask("check_service_status", service="a").healthy is (update in HEALTHY)
    finally:
        engine.swarm = SWARM


NAMES = st.text('ab/.-_%"\\{}[]?&#\0\n é', max_size=8) | st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,70}")


@generated(100)
@given(name=NAMES)
@example(name="we")
@example(name="id-of-web")
def test_no_name_leads_elsewhere(devops: Devops, engine: Engine, name: str) -> None:
    """For a name that no service has, the pack sends no request, or only a request for the list of services."""
    engine.asked()
    try:
        said = devops.refusal("check_service_status", service=name)
        assert said == f"The service {name!r} does not exist; list_deployments lists the services."
    except ValidationError:
        assert engine.asked() == []
    else:
        (asked,) = engine.asked()
        assert asked.startswith("GET /v1.44/services?status=true&filters=%7B%22name%22")


def test_a_replica_serves_the_pack(engine: Engine, start_server: StartServer) -> None:
    """No reply and no log line contains secret data of the Swarm, and no caller can change the Swarm."""
    assert min(str(each).count(SECRET) for each in (service("a", 1, 1), task("a", 1, "failed"))) > 3
    replica = start_server(MCP_COMPONENTS="examples.devops", DOCKER_HOST=engine.url, LOG_LEVEL="DEBUG")
    tools = {each["name"]: each for each in legacy(replica.url, "tools/list").json()["result"]["tools"]}
    assert tools.keys() == {"list_deployments", "check_service_status"}
    assert "healthy" in tools["check_service_status"]["outputSchema"]["required"]
    engine.asked()
    replies: list[Any] = []
    for name in (*NO_NAMES, None, 1, ["web"], {"web": 1}, "nothing"):
        assert engine.asked() == [], "a name that is not valid is not sent"
        reply = call(replica.url, "check_service_status", {"service": name})
        assert reply["isError"], name
        replies.append(reply)
    found = [call(replica.url, "check_service_status", {"service": name}) for name in ("web", "web-admin", "api")]
    replies += [call(replica.url, "list_deployments"), *found]
    assert not any(reply.get("isError") for reply in replies[-4:])
    assert replies[-1]["structuredContent"]["failures"][0]["state"] == "pending"
    said = text(call(replica.url, "check_service_status", {"service": "we"}))
    assert said == "The service 'we' does not exist; list_deployments lists the services."
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
