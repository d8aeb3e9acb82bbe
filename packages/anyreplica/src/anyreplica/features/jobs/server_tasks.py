"""Tools with `task=True`: FastMCP's tasks extension (`fastmcp-tasks`), set up for several replicas."""

import asyncio
import logging
import time
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from fastmcp import Context, FastMCP
from fastmcp.exceptions import NotFoundError
from fastmcp.server.extensions import MethodBinding, ServerExtension, ToolCallContinuation, ToolCallOutcome
from fastmcp.tools import FunctionTool, Tool
from fastmcp.utilities.versions import VersionSpec
from mcp import MCPError
from mcp.server.context import ServerRequestContext
from mcp_types import INVALID_PARAMS, CallToolRequestParams, InputRequiredResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from anyreplica.auth.caller import current_owner
from anyreplica.components.asking import has_rounds
from anyreplica.features.jobs.record import TaskBytes
from anyreplica.features.jobs.service import JobService
from anyreplica.features.jobs.settings import JobSettings
from anyreplica.features.jobs.tools import TASKS_EXTENSION, JobTasks, TaskParams, UpdateParams
from anyreplica.mcp.compat import mounts, sdk
from anyreplica.mcp.compat.sdk import selected_version
from anyreplica.settings.errors import StartupError, require_extra
from anyreplica.settings.words import derived

if TYPE_CHECKING:
    from fastmcp_tasks import TasksExtension


_STATE = "anyreplica.task:"
"""Begins the state between the rounds of such a call. The names of the tool and of the task follow. Clients see only a
sealed text."""

_FIRST_ROUND_SECONDS = 2.0
"""Time in which the first round must ask, in seconds. After this time the client gets the task."""

_FIRST_POLL_SECONDS, _LAST_POLL_SECONDS = 0.02, 0.1
"""Shortest and longest pause between two checks of the task, in seconds."""

_IN_MEMORY = "memory://"


class TaskRounds(ServerExtension):
    """FastMCP's tasks extension, with questions before the task.

    The rounds of a call come before its task (SEP-2663). FastMCP creates the task at once, and the client finds the
    question in `tasks/get`. The conformance suite expects this of a tool with `task=True`, and it expects the rounds
    first of a tool with `mode="required"`. Here FastMCP creates the task of such a tool, too, so each round runs once
    and on a worker. If the first round soon asks, the client gets the question as the reply to its call. When it
    answers, the task goes on, and the client gets the task.

    Args:
        tools: FastMCP's tasks extension of the server.
        sizes: counts the bytes of tasks.
    """

    identifier = TASKS_EXTENSION

    def __init__(self, tools: ServerExtension, sizes: TaskBytes) -> None:
        self.tools = tools
        self._sizes = sizes

    def settings(self) -> dict[str, Any]:
        return self.tools.settings()

    def methods(self) -> Sequence[MethodBinding]:
        return self.tools.methods()

    def lifespan(self) -> AbstractAsyncContextManager[None]:
        return self.tools.lifespan()

    async def intercept_tool_call(
        self, params: CallToolRequestParams, context: Context, call_next: ToolCallContinuation
    ) -> ToolCallOutcome:
        """Begin a task, or go on with the one whose question the client answers; otherwise call the tool."""
        from fastmcp_tasks import handlers  # noqa: PLC0415  # it takes 2 s to import
        from fastmcp_tasks.models import CreateTaskResult  # noqa: PLC0415

        state, own = context.request_state or "", _state_of(params.name)
        if state.startswith(own):  # not so if a middleware calls another tool
            task = state.removeprefix(own)
            answers = {
                key: each.model_dump(mode="json", by_alias=True, exclude_none=True)
                for key, each in (context.input_responses or {}).items()
            }
            await handlers.tasks_update(self.tools.server, task, answers)
            found = await handlers.tasks_get(self.tools.server, task)
            about = found.model_dump(exclude={"result_type", "result", "error", "input_requests"}, exclude_unset=True)
            return _question(found, own) or CreateTaskResult(**about)
        if not await _becomes_task(params, context):
            return await self.tools.intercept_tool_call(params, context, call_next)
        kept, outcome = self._sizes.keep_arguments(current_owner(), params.arguments or {}), None
        try:
            outcome = await self.tools.intercept_tool_call(params, context, call_next)
        finally:
            if not isinstance(outcome, CreateTaskResult):
                self._sizes.release(kept)
        if not isinstance(outcome, CreateTaskResult):
            return outcome
        if await _asks_first(params, context):
            return await self._first_question(outcome.task_id, own) or outcome
        return outcome

    async def _first_question(self, task: str, own: str) -> InputRequiredResult | None:
        """Wait for the question of the first round. None: it does not ask, or not soon."""
        from fastmcp_tasks.handlers import tasks_get  # noqa: PLC0415  # see above

        pause, until = _FIRST_POLL_SECONDS, time.monotonic() + _FIRST_ROUND_SECONDS
        while time.monotonic() < until:
            found = await tasks_get(self.tools.server, task)
            if found.status != "working":
                return _question(found, own)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LAST_POLL_SECONDS)
        return None


async def _becomes_task(params: CallToolRequestParams, context: Context) -> bool:
    """Return whether FastMCP creates a task for a call."""
    request = context.request_context
    if request is None or request.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return False
    if context.client_extension_settings(TASKS_EXTENSION) is None:
        return False
    version = selected_version(params.meta)
    try:
        tool = await context.fastmcp.get_tool(params.name, VersionSpec(eq=version) if version else None)
    except NotFoundError:
        return False
    return tool is not None and tool.task_config.supports_tasks()


async def _asks_first(params: CallToolRequestParams, context: Context) -> bool:
    """Return whether the tool of a call only runs as a task, and is a multi-round tool."""
    version = selected_version(params.meta)
    tool = await context.fastmcp.get_tool(params.name, VersionSpec(eq=version) if version else None)
    if tool is None or tool.task_config.mode != "required":
        return False
    # For the tool of a mounted server, `tool` has no function of its own.
    tasks = await context.fastmcp.get_tasks()
    return any(isinstance(each, FunctionTool) and each.key == tool.key and has_rounds(each) for each in tasks)


def _state_of(tool: str) -> str:
    return f"{_STATE}{tool}:"


def _question(found: Any, state: str) -> InputRequiredResult | None:
    """Return what a task asks, from the result of `tasks/get`. None: it asks nothing now."""
    if found.status != "input_required":
        return None
    return InputRequiredResult(input_requests=found.input_requests, request_state=f"{state}{found.task_id}")


def task_tools(mcp: FastMCP) -> list[str]:
    """Return the names of the tools that may run as a task, without those of providers that change."""
    components = mounts.local_components(mcp)
    return sorted(each.name for each in components if isinstance(each, Tool) and each.task_config.supports_tasks())


def offer_tasks(mcp: FastMCP, service: JobService, settings: JobSettings, sizes: TaskBytes | None = None) -> None:
    """Offer the tasks extension for the jobs of a server and for its tools with `task=True`.

    The author may have added FastMCP's extension with options. Its other options then come from the settings of jobs.

    Args:
        sizes: counts the bytes of tasks. None: nothing else counts them.

    Raises:
        StartupError: the package of FastMCP's extension is not installed, several replicas share no queue, or the
            server has jobs and an extension of this name that its author has written.
    """
    own = _authors(sdk.extensions_of(mcp).get(TASKS_EXTENSION))
    names = task_tools(mcp)
    if own is not None and not _is_fastmcps(own):
        if not service.off:
            raise StartupError(
                f"extension {TASKS_EXTENSION}: the server's own {type(own).__name__} has the name that jobs need; "
                "remove the extension or the jobs"
            )
        return
    if own is None and names:
        own = _extension(names[0])
        sdk.replace_extension(mcp, own)  # binds it to the server
    if own is not None:
        _configure(own, names, settings)
        own = TaskRounds(own, sizes or TaskBytes(settings.jobs_max_task_bytes))
        sdk.replace_extension(mcp, own)
    if service.off:
        return
    sdk.replace_extension(mcp, JobTasks(service) if own is None else JobAndToolTasks(service, own))


class JobAndToolTasks(JobTasks):
    """The tasks extension of a server that has both jobs and tools with `task=True`."""

    def __init__(self, service: JobService, tools: ServerExtension) -> None:
        super().__init__(service)
        self.tools = tools
        self._handlers = {each.method: each for each in tools.methods()}

    def methods(self) -> Sequence[MethodBinding]:
        versions = frozenset(MODERN_PROTOCOL_VERSIONS)
        params = {"tasks/get": TaskParams, "tasks/update": UpdateParams, "tasks/cancel": TaskParams}
        return [MethodBinding(name, kind, self._one_of_both(name), versions) for name, kind in params.items()]

    def _one_of_both(self, method: str) -> Any:
        of_jobs = {"tasks/get": self._get, "tasks/update": self._update, "tasks/cancel": self._cancel}[method]

        async def handle(ctx: ServerRequestContext[Any, Any], params: Any) -> Any:
            try:
                return await of_jobs(ctx, params)
            except MCPError as error:
                if error.error.code != INVALID_PARAMS:
                    raise
            binding = self._handlers[method]  # no job has this id
            given = params.model_dump(by_alias=True, exclude_none=True)
            return await binding.handler(ctx, binding.params_type.model_validate(given))

        return handle

    async def intercept_tool_call(
        self, params: CallToolRequestParams, context: Context, call_next: ToolCallContinuation
    ) -> ToolCallOutcome:
        """Submit a job or a task, if the client declares the extension; otherwise call the tool."""
        if params.name in self.service.jobs:
            return await super().intercept_tool_call(params, context, call_next)
        return await self.tools.intercept_tool_call(params, context, call_next)

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Run the worker of the tools' tasks."""
        async with self.tools.lifespan():
            yield


def _authors(found: ServerExtension | None) -> ServerExtension | None:
    """Return the author's extension. The server has an extension of this module if it has been served before."""
    while isinstance(found, TaskRounds | JobAndToolTasks):
        found = found.tools
    return None if isinstance(found, JobTasks) else found


def _is_fastmcps(extension: ServerExtension) -> bool:
    """Return whether an extension is FastMCP's, and not one that the author has written from scratch."""
    return any(each.__module__.startswith("fastmcp_tasks.") for each in type(extension).__mro__)


def _extension(tool: str) -> "TasksExtension":
    require_extra("jobs", f"tool {tool!r} with task=True")
    try:
        from fastmcp_tasks import TasksExtension  # noqa: PLC0415  # it takes 2 s and 31 MB to import
    except ImportError:
        raise StartupError(
            f"tool {tool!r}: task=True needs the package fastmcp-tasks; run pip install --no-deps fastmcp-tasks, "
            "or make the tool a job (`from anyreplica import job`, then `@job`)"
        ) from None
    return TasksExtension()


def _configure(extension: Any, names: Sequence[str], settings: JobSettings) -> None:
    """Set the options of FastMCP's extension that its author has not set, and replace a queue in memory."""
    logging.getLogger("docket").setLevel(logging.WARNING)  # as for jobs: the access log has each call
    options = extension.docket_settings
    wanted: Mapping[str, Any] = {
        "url": settings.jobs_url.get_secret_value(),
        "name": f"{settings.mcp_name}:tasks",
        "concurrency": settings.jobs_concurrency,
        "redelivery_timeout": timedelta(seconds=settings.jobs_redelivery_seconds),
    }
    for name, value in wanted.items():
        if name not in options.model_fields_set:
            setattr(options, name, value)
    if options.url.startswith(_IN_MEMORY) and not settings.jobs_in_process:
        options.url = wanted["url"]  # memory:// is what an author writes for one process
    if options.url.startswith(_IN_MEMORY) and not settings.is_single:
        raise StartupError(
            f"JOBS_URL={_IN_MEMORY}: the tasks of {', '.join(names) or 'this server'} need a queue that all replicas "
            "share; set JOBS_URL=redis://…"
        )
    _encrypt(settings)
    _assign_owners()


def _assign_owners() -> None:
    """Let each task belong to its caller. FastMCP's own scope of a task does not contain the issuer of the caller."""
    from fastmcp_tasks import context, creation, handlers  # noqa: PLC0415  # see above

    for module in (context, creation, handlers):  # two of them have imported the name from the third one
        module.get_task_scope = current_owner  # type: ignore[attr-defined]


def _encrypt(settings: JobSettings) -> None:
    """Encrypt what a task keeps of its call (the caller's token, the headers), unless the author has set a key."""
    from fastmcp_tasks import context, encryption  # noqa: PLC0415  # see above
    from fastmcp_tasks.settings import tasks_settings  # noqa: PLC0415

    if tasks_settings.encryption_key is not None or not settings.request_state_ring:
        return
    keys = derived(settings.request_state_ring, "task snapshots")
    ring = MultiFernet([Fernet(urlsafe_b64encode(key)) for key in keys])

    class RingCodec(encryption.SnapshotCodec):
        """Encrypts with the first of REQUEST_STATE_KEYS, and decrypts with all of them."""

        protected = True

        def encode(self, payload: str) -> str:
            return ring.encrypt(payload.encode()).decode()

        def decode(self, stored: str | bytes) -> str:
            try:
                return ring.decrypt(stored).decode()
            except InvalidToken as error:
                raise encryption.SnapshotDecryptionError("No key of REQUEST_STATE_KEYS fits the snapshot.") from error

    codec = RingCodec()
    context.snapshot_codec = lambda: codec  # type: ignore[attr-defined]  # imported there from `encryption`
