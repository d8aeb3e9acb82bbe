"""Every request of a conversation may come to another replica."""

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import httpx
import httpx2
import pytest
from fastmcp import Client as FastMCPClient
from fastmcp.client.transports import StreamableHttpTransport
from mcp import Client, MCPError
from mcp.client.context import ClientRequestContext
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.subscriptions import ResourceUpdated, ToolsListChanged
from mcp_types import (
    CallToolResult,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestParams,
    ElicitResult,
    ListRootsResult,
    LoggingMessageNotificationParams,
    PromptReference,
    Root,
    TextContent,
    TextResourceContents,
)
from pydantic import FileUrl

from conftest import Server, StartServer, until
from tests.mcp import FULL, HEADERS, call, legacy, modern, post, text
from tests.replicas import (
    BOTH,
    PACKS,
    Era,
    Fleet,
    RedisServer,
    asking,
    messages,
    running,
    streaming,
)

ERAS = get_args(Era)
VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
CLIENT = {"capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
ALL_LISTS = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
IN_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
LOG_LEVEL = "io.modelcontextprotocol/logLevel"


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Server]]:
    """A single replica without Redis, by its JSON_RESPONSE."""
    folder = tmp_path_factory.mktemp("alone")
    servers = {
        mode: Server(folder / mode, MCP_COMPONENTS=PACKS, JSON_RESPONSE=mode) for mode in ("auto", "true", "false")
    }
    try:
        for server in servers.values():
            server.wait_ready()
        yield servers
    finally:
        for server in servers.values():
            server.stop()


# --- One conversation, many replicas ---------------------------------------------------------------------------------


def conversation(url: str, era: Era, **headers: str) -> Iterator[httpx.Response]:
    """A request of each kind."""
    send = legacy if era == "handshake" else modern
    reference = {"type": "ref/prompt", "name": "test_prompt_with_arguments"}
    for method, params in (
        ("tools/list", {}),
        ("tools/call", {"name": "echo", "arguments": {"message": "hello"}}),
        ("tools/call", {"name": "test_logging_tool", "arguments": {}}),
        ("resources/list", {}),
        ("resources/templates/list", {}),
        ("resources/read", {"uri": "test://static-text"}),
        ("resources/read", {"uri": "test://template/7/data"}),
        ("prompts/list", {}),
        ("prompts/get", {"name": "test_prompt_with_arguments", "arguments": {"arg1": "a", "arg2": "b"}}),
        ("completion/complete", {"ref": reference, "argument": {"name": "arg1", "value": "par"}}),
    ):
        yield send(url, method, params, **headers)


def check(replies: list[httpx.Response]) -> None:
    """All are results, none names a session, and no two in a row are from the same replica."""
    for reply in replies:
        assert reply.status_code == 200, reply.text
        assert "result" in reply.json()
        assert "mcp-session-id" not in reply.headers
    served = [reply.headers["x-served-by"] for reply in replies]
    assert all(one != other for one, other in itertools.pairwise(served))
    assert set(served) == {"replica-1", "replica-2", "replica-3"}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_handshake_holds_on_every_replica(fleet: Fleet, version: str) -> None:
    """The replica that shook hands isn't the one that is asked then."""
    opened = legacy(fleet.url, "initialize", {"protocolVersion": version, **CLIENT})
    assert opened.json()["result"]["protocolVersion"] == version
    spoken = {"MCP-Protocol-Version": version}
    initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    done = post(fleet.url, json=initialized, headers={**HEADERS, **spoken})
    assert done.status_code == 202
    assert {opened.headers["x-served-by"], done.headers["x-served-by"]} < {"replica-1", "replica-2", "replica-3"}
    check([opened, *conversation(fleet.url, "handshake", **spoken), legacy(fleet.url, "ping", {}, **spoken)])


@pytest.mark.parametrize("version", ["2099-01-01", "2026-07-28", "1.0", ""])
def test_another_version_is_answered_with_the_newest_of_the_era(fleet: Fleet, version: str) -> None:
    """The client decides then whether it can live with it (lifecycle, "Version Negotiation")."""
    opened = legacy(fleet.url, "initialize", {"protocolVersion": version, **CLIENT})
    assert opened.json()["result"]["protocolVersion"] == "2025-11-25"


def test_the_handshake_promises_no_notifications(fleet: Fleet) -> None:
    """There is no stream on which the handshake era could hear of a change, since there is no session."""
    opened = legacy(fleet.url, "initialize", {"protocolVersion": "2025-11-25", **CLIENT})
    capabilities = opened.json()["result"]["capabilities"]
    promised = {kind for kind in ("tools", "prompts", "resources") if capabilities[kind].get("listChanged")}
    assert promised == set()
    assert not capabilities["resources"].get("subscribe")


@pytest.mark.parametrize("session", ["made-up", "3f2504e0-4f89-11d3-9a0c-0305e82c3301", "!", "x" * 4000])
def test_a_session_id_of_another_server_is_not_refused(fleet: Fleet, session: str) -> None:
    """Clients keep theirs when a server is replaced by this one."""
    check(list(conversation(fleet.url, "handshake", **{"Mcp-Session-Id": session})))


def test_the_stateless_era_needs_no_replica_twice(fleet: Fleet) -> None:
    """Nor a first one."""
    check([modern(fleet.url, "server/discover"), *conversation(fleet.url, "stateless")])


# --- The clients that people use -------------------------------------------------------------------------------------


async def _elicit(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
    """A user who answers every form with the same."""
    return ElicitResult(action="accept", content={"name": "Ada", "color": "blue", "ok": True})


async def _sample(context: ClientRequestContext, params: CreateMessageRequestParams) -> CreateMessageResult:
    """A model that says the same to everything."""
    return CreateMessageResult(role="assistant", content=TextContent(type="text", text="Paris"), model="test")


async def _roots(context: ClientRequestContext) -> ListRootsResult:
    """A client with one folder."""
    return ListRootsResult(roots=[Root(uri=FileUrl("file:///work"))])


def said(result: CallToolResult) -> str:
    """The text of a tool's result."""
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


ROUNDS = {
    "test_input_required_result_elicitation": "Hello, Ada!",
    "test_input_required_result_sampling": "Paris",
    "test_input_required_result_list_roots": "file:///work",
    "test_input_required_result_request_state": "state-ok",
    "test_input_required_result_multiple_inputs": "Ada: Paris (file:///work)",
    "test_input_required_result_multi_round": "Ada likes blue.",
}


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28", "auto"])
@pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")
def test_the_sdks_client_holds_a_conversation(fleet: Fleet, mode: str) -> None:
    """Lists, calls, reads, prompts, completions, progress, log messages, questions: through all replicas."""
    served: set[str] = set()
    reports: list[float] = []
    logged: list[LoggingMessageNotificationParams] = []

    async def note(response: httpx2.Response) -> None:
        served.add(response.headers["x-served-by"])

    async def log(params: LoggingMessageNotificationParams) -> None:
        logged.append(params)

    async def reported(progress: float, total: float | None, message: str | None) -> None:
        reports.append(progress)

    async def converse() -> None:
        async with httpx2.AsyncClient(event_hooks={"response": [note]}, timeout=30) as http:
            transport = streamable_http_client(f"{fleet.url}/mcp", http_client=http)
            client = Client(
                transport,
                mode=mode,
                cache=None,
                logging_callback=log,
                log_level="info",
                elicitation_callback=_elicit,
                sampling_callback=_sample,
                list_roots_callback=_roots,
            )
            async with client:
                assert "echo" in [tool.name for tool in (await client.list_tools()).tools]
                assert said(await client.call_tool("echo", {"message": "hällo 🌍"})) == "hällo 🌍"
                (contents,) = (await client.read_resource("test://template/7/data")).contents
                assert isinstance(contents, TextResourceContents)
                assert '"id": "7"' in contents.text
                (message,) = (await client.get_prompt("test_simple_prompt")).messages
                assert isinstance(message.content, TextContent)
                reference = PromptReference(type="ref/prompt", name="test_prompt_with_arguments")
                completion = await client.complete(reference, {"name": "arg1", "value": "par"})
                assert completion.completion.values == ["paris", "park", "party"]
                assert (await client.call_tool("no_such_tool")).is_error
                with pytest.raises(MCPError, match="not found"):
                    await client.read_resource("test://no-such-resource")
                await client.call_tool("test_tool_with_progress", progress_callback=reported)
                await client.call_tool("test_tool_with_logging")
                if mode != "legacy":
                    for tool, answer in ROUNDS.items():
                        assert said(await client.call_tool(tool)) == answer

    asyncio.run(converse())
    assert served == {"replica-1", "replica-2", "replica-3"}
    assert reports == [0, 50, 100]
    assert len(logged) == 3


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28", "auto"])
def test_fastmcps_client_holds_a_conversation(fleet: Fleet, mode: str) -> None:
    """It is what most people write against."""
    served: set[str] = set()

    async def note(response: httpx2.Response) -> None:
        served.add(response.headers["x-served-by"])

    def http(
        headers: dict[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
        auth: httpx2.Auth | None = None,
        **options: Any,
    ) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(headers=headers, auth=auth, event_hooks={"response": [note]}, timeout=30)

    async def converse() -> None:
        transport = StreamableHttpTransport(f"{fleet.url}/mcp", httpx_client_factory=http)
        async with FastMCPClient(transport, mode=mode, cache=False) as client:
            assert "add" in [tool.name for tool in await client.list_tools()]
            assert (await client.call_tool("add", {"a": 2, "b": 40})).data == 42
            (contents,) = await client.read_resource("test://static-text")
            assert isinstance(contents, TextResourceContents)
            assert len((await client.get_prompt("test_simple_prompt")).messages) == 1
            assert "test://watched-resource" in [str(each.uri) for each in await client.list_resources()]

    asyncio.run(converse())
    assert served == {"replica-1", "replica-2", "replica-3"}


# --- Several rounds --------------------------------------------------------------------------------------------------

FORM = {"action": "accept", "content": {"name": "Ada", "color": "blue", "ok": True, "context": "tea"}}
MODEL = {"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "test"}
ROOTS = {"roots": [{"uri": "file:///work"}]}
ANSWERS = {"elicitation/create": FORM, "sampling/createMessage": MODEL, "roots/list": ROOTS}


def rounds(urls: list[str], method: str, params: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """Answer what is asked, each round at the next of `urls`; returns the last result and how many rounds it took."""
    asked = dict(params)
    for number in range(10):
        reply = modern(urls[number % len(urls)], method, asked)
        assert reply.status_code == 200, reply.text
        result: dict[str, Any] = reply.json()["result"]
        if result["resultType"] != "input_required":
            return result, number + 1
        responses = {key: ANSWERS[each["method"]] for key, each in result["inputRequests"].items()}
        asked = {**params, "inputResponses": responses}
        if "requestState" in result:
            asked["requestState"] = result["requestState"]
    pytest.fail("it asks and asks")


@pytest.mark.parametrize(("tool", "answer"), ROUNDS.items())
def test_a_tool_asks_on_one_replica_and_goes_on_with_another(fleet: Fleet, tool: str, answer: str) -> None:
    """Nothing of the first round is left on its replica."""
    result, count = rounds(fleet.urls, "tools/call", {"name": tool, "arguments": {}})
    assert text(result) == answer
    assert count == (3 if tool.endswith("multi_round") else 2)


@pytest.mark.needs("redis")
@pytest.mark.parametrize(("tool", "answer"), ROUNDS.items())
def test_so_it_does_with_redis(fleet_with_redis: Fleet, tool: str, answer: str) -> None:
    """Where each state is good for one use."""
    result, _ = rounds(fleet_with_redis.urls, "tools/call", {"name": tool, "arguments": {}})
    assert text(result) == answer


def test_a_prompt_asks_on_one_replica_and_goes_on_with_another(fleet: Fleet) -> None:
    """As a tool does."""
    result, count = rounds(fleet.urls, "prompts/get", {"name": "test_input_required_result_prompt"})
    assert result["messages"][0]["content"]["text"] == "Use this context: tea"
    assert count == 2


# --- Messages during a call ------------------------------------------------------------------------------------------


def waiting_call(era: Era, tool: str, key: str) -> dict[str, Any]:
    """A call of a tool that says something, and then waits until it is released."""
    params = {"name": tool, "arguments": {"key": key}}
    if tool == "report_and_wait":
        return asking(era, "tools/call", params, progressToken="token")
    return asking(era, "tools/call", params, **({LOG_LEVEL: "info"} if era == "stateless" else {}))


def check_said(message: dict[str, Any], tool: str, key: str) -> None:
    """It is what the tool said before it began to wait."""
    params = message["params"]
    if tool == "report_and_wait":
        assert message["method"] == "notifications/progress"
        expected = {"progressToken": "token", "progress": 1, "total": 2, "message": f"waiting for {key}"}
        assert {name: params[name] for name in expected} == expected
    else:
        assert message["method"] == "notifications/message"
        assert params["level"] == "info"
        assert params["data"]["msg"] == f"waiting for {key}"


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("tool", ["report_and_wait", "log_and_wait"])
def test_what_a_tool_says_arrives_while_it_runs(fleet: Fleet, era: Era, tool: str) -> None:
    """The message is here, and the call goes on until a second request ends it."""
    key = f"{era} {tool}"
    with streaming(fleet.url, waiting_call(era, tool, key)) as (reply, events):
        assert reply.headers["content-type"] == "text/event-stream"
        replica = fleet.named(reply.headers["x-served-by"])
        check_said(next(events), tool, key)
        assert text(call(replica.url, "fate", {"key": key})) == "waiting"
        call(replica.url, "release", {"key": key})
        last = next(events)
        assert last["id"] == 1
        assert text(last["result"]) == key
        assert list(events) == []


@pytest.mark.parametrize("era", ERAS)
def test_who_takes_no_stream_gets_json(fleet: Fleet, era: Era) -> None:
    """What the tool said is dropped."""
    for tool in ("test_tool_with_progress", "test_tool_with_logging"):
        meta = {"progressToken": "token"} | ({LOG_LEVEL: "info"} if era == "stateless" else {})
        asked = asking(era, "tools/call", {"name": tool, "arguments": {}}, **meta)
        reply = post(fleet.url, **asked)
        assert reply.headers["content-type"] == "application/json"
        assert "times" in reply.text or "logged" in reply.text
        assert reply.json()["id"] == 1


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("method", ["tools/call", "tools/list", "resources/read", "prompts/get"])
def test_who_says_nothing_answers_json(fleet: Fleet, era: Era, method: str) -> None:
    """Also to those who would take a stream, and gave a token for progress."""
    all_params: dict[str, dict[str, Any]] = {
        "tools/call": {"name": "echo", "arguments": {"message": "hello"}},
        "tools/list": {},
        "resources/read": {"uri": "test://static-text"},
        "prompts/get": {"name": "test_simple_prompt"},
    }
    with streaming(fleet.url, asking(era, method, all_params[method], progressToken="token")) as (reply, _):
        assert reply.headers["content-type"] == "application/json"
        assert "result" in httpx.Response(200, content=reply.read()).json()


def test_a_message_needs_a_level_in_the_stateless_era(fleet: Fleet) -> None:
    """Without one in the request's envelope there are none, and so no stream."""
    asked = asking("stateless", "tools/call", {"name": "test_tool_with_logging", "arguments": {}})
    with streaming(fleet.url, asked) as (reply, _):
        assert reply.headers["content-type"] == "application/json"
    above = asking("stateless", "tools/call", asked["json"]["params"], **{LOG_LEVEL: "error"})
    with streaming(fleet.url, above) as (reply, _):
        assert reply.headers["content-type"] == "application/json"


@pytest.mark.parametrize("era", ERAS)
def test_progress_needs_a_token(fleet: Fleet, era: Era) -> None:
    """As the protocol says; without one there is no stream."""
    with streaming(fleet.url, asking(era, "tools/call", {"name": "test_tool_with_progress"})) as (reply, _):
        assert reply.headers["content-type"] == "application/json"


def test_json_always(alone: dict[str, Server]) -> None:
    """JSON_RESPONSE=true: whatever a caller takes and a tool says. A subscription is a stream all the same."""
    server = alone["true"]
    for era in ERAS:
        for tool in ("test_tool_with_progress", "test_tool_with_logging"):
            meta = {"progressToken": "token"} | ({LOG_LEVEL: "info"} if era == "stateless" else {})
            with streaming(server.url, asking(era, "tools/call", {"name": tool}, **meta)) as (reply, _):
                assert reply.headers["content-type"] == "application/json"
    with listening(server, ALL_LISTS) as events:
        call(server.url, "test_trigger_tool_change")
        assert next(events)["method"] == "notifications/tools/list_changed"


def test_the_sdks_own_behaviour(alone: dict[str, Server]) -> None:
    """JSON_RESPONSE=false: the handshake era's replies are streams always, and callers have to take them."""
    server = alone["false"]
    with streaming(server.url, asking("handshake", "tools/list")) as (reply, events):
        assert reply.headers["content-type"] == "text/event-stream"
        assert "result" in next(events)
    assert legacy(server.url, "tools/list").status_code == 406
    for era in ERAS:
        with streaming(server.url, waiting_call(era, "report_and_wait", era)) as (_, events):
            check_said(next(events), "report_and_wait", era)
            with streaming(server.url, asking(era, "tools/call", {"name": "release", "arguments": {"key": era}})):
                pass
            assert text(next(events)["result"]) == era
    with listening(server, ALL_LISTS) as events:
        asked = asking("stateless", "tools/call", {"name": "test_trigger_tool_change"})
        with streaming(server.url, asked):
            assert next(events)["method"] == "notifications/tools/list_changed"


# --- Subscriptions ---------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def listening(server: Server, wanted: dict[str, Any]) -> Iterator[Iterator[dict[str, Any]]]:
    """Listen at a replica; gives the messages after the acknowledgement."""
    with streaming(server.url, asking("stateless", "subscriptions/listen", {"notifications": wanted})) as stream:
        reply, events = stream
        assert reply.headers["content-type"] == "text/event-stream", reply.read()
        first = next(events)
        assert first["method"] == "notifications/subscriptions/acknowledged"
        assert first["params"]["notifications"] == wanted
        assert first["params"]["_meta"][IN_SUBSCRIPTION] == 1
        yield events


def hears(events: Iterator[dict[str, Any]]) -> list[str]:
    """Start to note, in a thread, what a listener hears; returns the growing list."""
    heard: list[str] = []

    def note() -> None:
        try:
            heard.extend(event.get("method", "result") for event in events)
        except httpx.HTTPError:
            heard.append("lost")

    threading.Thread(target=note, daemon=True).start()
    return heard


def offered(server: Server) -> dict[str, bool]:
    """What `server/discover` says of subscriptions."""
    said = modern(server.url, "server/discover").json()["result"]["capabilities"]
    lists = {kind: bool(said[kind].get("listChanged")) for kind in ("tools", "prompts", "resources")}
    return {**lists, "subscribe": bool(said["resources"].get("subscribe"))}


@pytest.mark.needs("redis")
def test_a_listener_on_one_replica_hears_what_happens_on_another(fleet_with_redis: Fleet) -> None:
    """Each event once, of what it asked for and of nothing else."""
    first, second, third = fleet_with_redis.replicas
    uris = ["orders://today", "orders://tomorrow"]
    with (
        listening(first, {"toolsListChanged": True}) as tools,
        listening(first, {"promptsListChanged": True}) as prompts,
        listening(second, {"resourceSubscriptions": uris}) as resources,
        listening(third, ALL_LISTS) as lists,
    ):
        call(second.url, "test_trigger_prompt_change")
        call(third.url, "touch", {"uri": "orders://yesterday"})
        call(third.url, "touch", {"uri": "orders://tomorrow"})
        call(first.url, "test_trigger_tool_change")
        assert next(tools)["method"] == "notifications/tools/list_changed"
        assert next(prompts)["method"] == "notifications/prompts/list_changed"
        updated = next(resources)
        assert updated["method"] == "notifications/resources/updated"
        assert updated["params"]["uri"] == "orders://tomorrow"
        assert updated["params"]["_meta"][IN_SUBSCRIPTION] == 1
        heard = [next(lists)["method"] for _ in range(2)]
        assert heard == ["notifications/prompts/list_changed", "notifications/tools/list_changed"]
    assert all(all(offered(replica).values()) for replica in fleet_with_redis.replicas)


@pytest.mark.needs("redis")
def test_the_sdks_client_listens_and_publishes_through_the_balancer(fleet_with_redis: Fleet) -> None:
    """Its listening request stays with one replica, its calls go round."""

    async def listen() -> None:
        async with (
            Client(f"{fleet_with_redis.url}/mcp", mode="auto", cache=None) as client,
            client.listen(tools_list_changed=True, resource_subscriptions=["orders://today"]) as changes,
        ):
            for _ in range(3):
                await client.call_tool("test_trigger_tool_change")
                assert await anext(changes) == ToolsListChanged()
                await client.call_tool("touch", {"uri": "orders://today"})
                assert await anext(changes) == ResourceUpdated(uri="orders://today")

    asyncio.run(asyncio.wait_for(listen(), 30))


def test_without_redis_several_replicas_do_not_offer_it(fleet: Fleet) -> None:
    """A listener would miss what happens on other replicas, and nothing would tell it so."""
    for replica in fleet.replicas:
        assert not any(offered(replica).values())
        with streaming(replica.url, asking("stateless", "subscriptions/listen", {"notifications": ALL_LISTS})) as (
            reply,
            _,
        ):
            assert reply.status_code == 404
            assert httpx.Response(404, content=reply.read()).json()["error"]["code"] == -32601
    assert text(call(fleet.url, "test_trigger_tool_change")) == "Told."


def test_a_single_replica_needs_no_redis(alone: dict[str, Server]) -> None:
    """Its events go from hand to hand."""
    server = alone["auto"]
    assert all(offered(server).values())
    with listening(server, ALL_LISTS) as one, listening(server, {"resourceSubscriptions": ["a://b"]}) as other:
        call(server.url, "test_trigger_tool_change")
        call(server.url, "touch", {"uri": "a://b"})
        assert next(one)["method"] == "notifications/tools/list_changed"
        assert next(other)["params"]["uri"] == "a://b"


def test_a_listener_has_to_take_event_streams(alone: dict[str, Server]) -> None:
    """The reply can be nothing else."""
    reply = modern(alone["auto"].url, "subscriptions/listen", {"notifications": ALL_LISTS})
    assert reply.status_code == 406
    assert reply.json()["id"] == 1


@pytest.mark.parametrize("mode", ["auto", "true", "false"])
def test_listeners_do_not_hold_up_a_shutdown(start_server: StartServer, mode: str) -> None:
    """Each is told that it is over, in good order; else a stop would take the whole grace (25 s)."""
    server = start_server(MCP_COMPONENTS=PACKS, JSON_RESPONSE=mode)
    with listening(server, ALL_LISTS) as one, listening(server, ALL_LISTS) as other:
        assert server.stop(seconds=8) == 0
        for events in (one, other):
            (last,) = events
            assert last["id"] == 1
            assert last["result"]["_meta"][IN_SUBSCRIPTION] == 1


def test_a_listener_that_comes_back_at_once_does_not_hold_up_a_shutdown(start_server: StartServer) -> None:
    """As a good client does when its stream ends: on the connection that it has, which the replica still serves."""
    server = start_server(MCP_COMPONENTS=PACKS)
    stopping = threading.Event()
    again: list[int] = []

    def listen() -> None:
        asked = asking("stateless", "subscriptions/listen", {"notifications": ALL_LISTS})
        headers = {**asked["headers"], "Accept": BOTH}
        with httpx.Client(verify=False, timeout=30) as client:
            while True:
                try:
                    with client.stream("POST", f"{server.url}/mcp", json=asked["json"], headers=headers) as reply:
                        again.append(reply.status_code)
                        for _ in messages(reply):
                            pass
                except httpx.HTTPError:
                    if stopping.is_set():
                        return

    listeners = [threading.Thread(target=listen) for _ in range(4)]
    for listener in listeners:
        listener.start()
    until(lambda: len(again) == len(listeners), "all of them listen")
    stopping.set()
    try:
        assert server.stop(seconds=8) == 0
    finally:
        for listener in listeners:
            listener.join()


# --- Redis comes and goes --------------------------------------------------------------------------------------------


@pytest.mark.needs("redis")
def test_redis_may_go_away_and_come_back(redis_server: RedisServer, tmp_path: Path) -> None:
    """Calls go on without it, listeners hear what happens on their own replica, and then everything again."""
    with running(tmp_path, 2, MCP_COMPONENTS=PACKS, REDIS_URL=redis_server.url) as fleet:
        first, second = fleet.replicas
        with listening(first, ALL_LISTS) as here, listening(second, ALL_LISTS) as there:
            heard_here, heard_there = hears(here), hears(there)

            def publish_until(heard: list[str], what: str) -> None:
                before = len(heard)
                until(
                    lambda: bool(call(second.url, "test_trigger_tool_change")) and len(heard) > before,
                    what,
                )

            publish_until(heard_here, "an event crosses")
            redis_server.kill()
            until(lambda: "Redis can't be reached" in first.output, "the replica notices")
            assert text(call(fleet.url, "echo", {"message": "on"})) == "on"
            tool = {"name": "test_input_required_result_multi_round", "arguments": {}}
            assert text(rounds(fleet.urls, "tools/call", tool)[0]) == "Ada likes blue."
            publish_until(heard_there, "a listener hears what happens on its own replica")
            assert set(heard_here + heard_there) == {"notifications/tools/list_changed"}
            redis_server.start()
            publish_until(heard_here, "listening works again, on the stream that was open all the time")
        with listening(first, ALL_LISTS) as late:
            heard_late = hears(late)
            until(
                lambda: (
                    bool(call(second.url, "test_trigger_prompt_change"))
                    and "notifications/prompts/list_changed" in heard_late
                ),
                "one who begins to listen now hears, too",
            )


@pytest.mark.needs("redis")
def test_replicas_may_start_before_redis(redis_server: RedisServer, tmp_path: Path) -> None:
    """A node that boots starts its services in any order."""
    redis_server.kill()
    with running(tmp_path, 2, MCP_COMPONENTS=PACKS, REDIS_URL=redis_server.url) as fleet:
        first, second = fleet.replicas
        with listening(first, ALL_LISTS) as events:
            heard = hears(events)
            redis_server.start()
            until(lambda: bool(call(second.url, "test_trigger_tool_change")) and bool(heard), "an event crosses")


@pytest.mark.needs("redis")
def test_a_call_does_not_wait_long_for_a_redis_that_is_gone(redis_server: RedisServer, tmp_path: Path) -> None:
    """A round more or less late is nothing; one that takes ten seconds looks like a hang to an agent."""
    with running(tmp_path, 1, MCP_COMPONENTS=PACKS, REDIS_URL=redis_server.url) as fleet:
        redis_server.kill()
        for _ in range(3):
            with httpx.Client(verify=False, timeout=3) as client:
                asked = asking("handshake", "tools/call", {"name": "touch", "arguments": {"uri": "a://b"}})
                assert client.post(f"{fleet.urls[0]}/mcp", **asked).status_code == 200
            with httpx.Client(verify=False, timeout=3) as client:
                begun = asking("stateless", "tools/call", {"name": "transfer", "arguments": {"amount": 1}})
                state = client.post(f"{fleet.urls[0]}/mcp", **begun).json()["result"]["requestState"]
                answered = {"inputResponses": {"sure": {"action": "accept", "content": {}}}, "requestState": state}
                ended = asking("stateless", "tools/call", {**begun["json"]["params"], **answered})
                assert text(client.post(f"{fleet.urls[0]}/mcp", **ended).json()["result"]) == "accept: 1"


# --- Nothing of one caller's for another -----------------------------------------------------------------------------


def test_a_log_level_silences_nobody_else(fleet: Fleet) -> None:
    """FastMCP keeps one level for all who come without a session."""
    for replica in fleet.replicas:
        for level in ("emergency", "error"):
            assert legacy(replica.url, "logging/setLevel", {"level": level}).json()["result"] == {}
        with streaming(replica.url, asking("handshake", "tools/call", {"name": "test_tool_with_logging"})) as (_, seen):
            assert len(list(seen)) == 4


Send = Callable[[str, str, dict[str, Any]], str]


def in_session(session: str, lane: str) -> Send:
    """What calls a tool with a session id of the caller's choice, and gives the text of its result."""
    meta = FULL if lane == "full" else {}

    def send(url: str, tool: str, arguments: dict[str, Any]) -> str:
        asked = asking("handshake", "tools/call", {"name": tool, "arguments": arguments}, **meta)
        asked["headers"] |= {"Mcp-Session-Id": session}
        with streaming(url, asked) as (reply, events):
            if reply.headers["content-type"] == "text/event-stream":
                return text(list(events)[-1]["result"])
            return text(httpx.Response(200, content=reply.read()).json()["result"])

    return send


@pytest.mark.parametrize("lane", ["fast", "full"])
def test_a_session_id_reads_nobody_elses_state(fleet: Fleet, lane: str) -> None:
    """Who names another's session isn't that other: no replica has issued an id that could prove it."""
    send = in_session("alice", lane)
    for replica in fleet.replicas:
        assert send(replica.url, "remember", {"value": "secret"}) == "secret"
        assert send(replica.url, "recall", {}) == "None"
        assert in_session("bob", lane)(replica.url, "recall", {}) == "None"
        assert text(call(replica.url, "recall")) == "None"


def test_nor_does_it_in_the_sdks_own_mode(alone: dict[str, Server]) -> None:
    """JSON_RESPONSE=false without sessions."""
    server = alone["false"]
    send = in_session("alice", "fast")
    assert send(server.url, "remember", {"value": "secret"}) == "secret"
    assert send(server.url, "recall", {}) == "None"


def test_a_log_level_silences_nobody_else_in_the_sdks_own_mode(alone: dict[str, Server]) -> None:
    """JSON_RESPONSE=false is no excuse."""
    server = alone["false"]
    with streaming(server.url, asking("handshake", "logging/setLevel", {"level": "emergency"})) as (reply, _):
        assert reply.status_code == 200
    with streaming(server.url, asking("handshake", "tools/call", {"name": "test_tool_with_logging"})) as (_, seen):
        assert len(list(seen)) == 4
