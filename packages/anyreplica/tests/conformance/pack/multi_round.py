"""Tools and a prompt with several rounds (2026-07-28).

They return questions as their result, and the client calls them again with the answers.
"""

from fastmcp import Context
from fastmcp.exceptions import ToolError
from fastmcp.prompts import prompt
from fastmcp.tools import tool
from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequest,
    InputRequiredResult,
    ListRootsRequest,
    ListRootsResult,
    SamplingMessage,
    TextContent,
)


@tool
async def test_input_required_result_elicitation(ctx: Context) -> str | InputRequiredResult:
    """Ask for a name and return a greeting."""
    name = answered(ctx, "user_name", "name")
    return f"Hello, {name}!" if name else _ask(user_name=form("What is your name?", name="string"))


@tool
async def test_input_required_result_sampling(ctx: Context) -> str | InputRequiredResult:
    """Ask the client's model and return its answer."""
    said = _sampled(ctx, "capital_question")
    return said or _ask(capital_question=_sample("What is the capital of France?", 100))


@tool
async def test_input_required_result_list_roots(ctx: Context) -> str | InputRequiredResult:
    """Ask for the client's roots and return them."""
    return _roots(ctx, "client_roots") or _ask(client_roots=ListRootsRequest())


@tool
async def test_input_required_result_request_state(ctx: Context) -> str | InputRequiredResult:
    """Ask for a confirmation and check that the request state comes back with the answer."""
    if answered(ctx, "confirm", "ok") is not None and ctx.request_state == "asked":
        return "state-ok"
    return _ask("asked", confirm=form("Please confirm", ok="boolean"))


@tool
async def test_input_required_result_tampered_state(ctx: Context) -> str | InputRequiredResult:
    """Ask for a confirmation with a request state that the client must not change."""
    if answered(ctx, "confirm", "ok") is not None and ctx.request_state == "untouched":
        return "state-ok"
    return _ask("untouched", confirm=form("Please confirm", ok="boolean"))


@tool
async def test_input_required_result_multiple_inputs(ctx: Context) -> str | InputRequiredResult:
    """Ask three questions in one round."""
    name, greeting = answered(ctx, "user_name", "name"), _sampled(ctx, "greeting")
    roots = _roots(ctx, "client_roots")
    if name and greeting and roots and ctx.request_state == "asked":
        return f"{name}: {greeting} ({roots})"
    return _ask(
        "asked",
        user_name=form("What is your name?", name="string"),
        greeting=_sample("Generate a greeting", 50),
        client_roots=ListRootsRequest(),
    )


@tool
async def test_input_required_result_multi_round(ctx: Context) -> str | InputRequiredResult:
    """Ask for a name, then for a colour. The request state carries the name."""
    name, color = answered(ctx, "step1", "name"), answered(ctx, "step2", "color")
    if ctx.request_state and color:
        return f"{ctx.request_state.removeprefix('name=')} likes {color}."
    if name:
        return _ask(f"name={name}", step2=form("Step 2: What is your favorite color?", color="string"))
    return _ask("started", step1=form("Step 1: What is your name?", name="string"))


@tool
async def test_input_required_result_capabilities(ctx: Context) -> str | InputRequiredResult:
    """Ask only the questions that the client can answer by its capabilities."""
    if ctx.input_responses:
        return f"Answered: {', '.join(sorted(ctx.input_responses))}"
    can = ctx.session.client_capabilities
    wanted: dict[str, InputRequest] = {}
    if can and can.sampling is not None:
        wanted["greeting"] = _sample("Generate a greeting", 50)
    if can and can.elicitation is not None:
        wanted["user_name"] = form("What is your name?", name="string")
    if not wanted:
        raise ToolError("Declare sampling or elicitation to be asked something")
    return _ask(**wanted)


@tool
async def test_streaming_elicitation(ctx: Context) -> str | InputRequiredResult:
    """Report progress, then return the question as the result instead of sending a separate request."""
    await ctx.report_progress(1, 2)
    name = answered(ctx, "user_name", "name")
    return f"Hello, {name}!" if name else _ask(user_name=form("What is your name?", name="string"))


@prompt
async def test_input_required_result_prompt(ctx: Context) -> str | InputRequiredResult:
    """Ask for a context and return a prompt with it."""
    context = answered(ctx, "user_context", "context")
    if context:
        return f"Use this context: {context}"
    return _ask(user_context=form("What context should the prompt use?", context="string"))


def _ask(state: str | None = None, /, **requests: InputRequest) -> InputRequiredResult:
    return InputRequiredResult(input_requests=requests, request_state=state)


def form(message: str, **types: str) -> ElicitRequest:
    """Return a question to the user with a field of each type."""
    properties = {name: {"type": kind} for name, kind in types.items()}
    schema = {"type": "object", "properties": properties, "required": list(types)}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def _sample(text: str, max_tokens: int) -> CreateMessageRequest:
    message = SamplingMessage(role="user", content=TextContent(type="text", text=text))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=max_tokens))


def answered(ctx: Context, key: str, field: str) -> object:
    """Return the user's value of a form's field, or None without an accepted form."""
    answer = (ctx.input_responses or {}).get(key)
    return (answer.content or {}).get(field) if isinstance(answer, ElicitResult) else None


def _sampled(ctx: Context, key: str) -> str:
    """Return the model's answer, or an empty string without an answer."""
    answer = (ctx.input_responses or {}).get(key)
    if isinstance(answer, CreateMessageResult) and isinstance(answer.content, TextContent):
        return answer.content.text
    return ""


def _roots(ctx: Context, key: str) -> str:
    """Return the client's roots, or an empty string without an answer."""
    answer = (ctx.input_responses or {}).get(key)
    return ", ".join(str(root.uri) for root in answer.roots) if isinstance(answer, ListRootsResult) else ""
