"""Caches the results of tools in the memory of this replica, and also in Redis if REDIS_URL is set."""

import asyncio
import functools
import hashlib
import inspect
import json
import logging
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from typing import Any, Literal

import orjson
from cachetools import LRUCache
from fastmcp.tools import ToolResult
from mcp_types import CallToolResult, InputRequiredResult
from pydantic import BaseModel, SecretBytes, SecretStr, TypeAdapter
from pydantic.errors import PydanticSchemaGenerationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

from anyreplica.auth.caller import current_cache_key
from anyreplica.components import call_limits
from anyreplica.components.call_limits import out_of_time
from anyreplica.components.containment import AsyncFunction
from anyreplica.components.outcome import Outcome
from anyreplica.features.cache.policy import CachePolicy
from anyreplica.features.cache.shared_results import CachedResult, SharedResults
from anyreplica.process.event_loop import EagerTask

logger = logging.getLogger(__name__)

Answer = Literal["hit", "stale", "miss", "shared", "bypassed"]
"""How a call of a cached tool was answered.

- hit: with a fresh result.
- stale: with an old result, while the tool runs to renew the result.
- miss: with the result of a new run of the tool.
- shared: with the result of another call's run, or of another replica.
- bypassed: with the result of a new run of the tool, because Redis could not be reached or too many runs go on.
"""

_Run = Callable[[], Awaitable[Any]]

_REPLIES = (ToolResult, CallToolResult, InputRequiredResult)
"""Types of results that are not cached: such a result may contain an error, or a question to the caller."""


class Cache:
    """The results of a replica's cached tools, and the runs that produce new results.

    Args:
        most: maximum size of the results in memory, in bytes.
        most_runs: maximum number of runs that continue without their call.

    Attributes:
        counts: number of calls, by tool and by how the call was answered.
        shared: the results in Redis. It is set before the first call; None without Redis.
        memory: the results in this replica's memory.
    """

    def __init__(self, most: int, most_runs: int) -> None:
        self._most_runs = most_runs
        self.counts: Counter[tuple[str, Answer]] = Counter()
        self.shared: SharedResults | None = None
        self.memory: LRUCache[bytes, CachedResult] = LRUCache(most, getsizeof=lambda entry: entry.size)
        self.runs: dict[bytes, asyncio.Task[Outcome]] = {}
        """The running task that produces a result, by key. All calls with the same key wait for this task."""

    def keep(self, key: bytes, entry: CachedResult) -> None:
        """Keep a result in memory, unless the result is larger than the whole cache."""
        if entry.size <= self.memory.maxsize:
            self.memory[key] = entry

    @property
    def is_busy(self) -> bool:
        """Whether no further run may start that continues without its call."""
        return len(self.runs) >= self._most_runs

    def start(self, key: bytes, make: Callable[[], Awaitable[Any]]) -> asyncio.Task[Outcome]:
        """Start a task that produces a result. The task continues when the call that started it is cancelled."""
        task = EagerTask(_outcome(make), loop=asyncio.get_running_loop(), eager_start=True)
        if not task.done():
            self.runs[key] = task
            task.add_done_callback(lambda _: self.runs.pop(key))
        return task


async def _outcome(make: Callable[[], Awaitable[Any]]) -> Outcome:
    try:
        return Outcome(await make())
    except BaseException as error:  # noqa: BLE001  # a SystemExit in a task would end the process
        return Outcome(error=error)


class CachedTool:
    """A tool's function with a cache in front of it.

    Errors are not cached. Several calls may wait for the same run, so the run continues when the call that started the
    run is cancelled.

    Args:
        fn: the tool's function. Its parameters are the tool's arguments only.
        version: version of the tool. Each version has results of its own.
        seconds: time limit of a run.

    Raises:
        ValueError: the function's return type cannot be written as JSON.
    """

    def __init__(
        self, fn: AsyncFunction, cache: Cache, policy: CachePolicy, name: str, version: str | int | None, seconds: float
    ) -> None:
        self._fn = fn
        self._cache = cache
        self._policy = policy
        self._name = name
        self._head = orjson.dumps([name, version, policy.scope])
        self._seconds = seconds
        signature = inspect.signature(fn, eval_str=True)
        returned = signature.return_annotation
        try:
            self._adapter = TypeAdapter[Any](Any if returned is signature.empty else returned)
        except PydanticSchemaGenerationError:
            raise ValueError("a cached tool must return a type that can be written as JSON") from None
        self._defaults = {
            name: each.default
            for name, each in signature.parameters.items()
            if not (each.default is each.empty or isinstance(each.default, FieldInfo))
        }
        """Default values of the arguments, by name. Pydantic fills in the default of a `Field` before the call."""

    def function(self) -> AsyncFunction:
        """Return the cached function, with the name and signature of the tool's function."""

        @functools.wraps(self._fn)
        async def cached(*args: Any, **kwargs: Any) -> Any:
            return await self._call(args, kwargs)

        return cached

    async def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        key = self._key(args, kwargs)
        if key is None:
            return await self._fn(*args, **kwargs)
        cache, now = self._cache, time.time()
        entry = cache.memory.get(key)
        if entry is not None and now < entry.fresh:
            cache.counts[self._name, "hit"] += 1
            return entry.value
        task, run = cache.runs.get(key), functools.partial(self._fn, *args, **kwargs)
        if entry is not None and now < entry.stale:
            cache.counts[self._name, "stale"] += 1
            if task is None and not cache.is_busy:
                cache.start(key, functools.partial(self._renew, key, run))
            return entry.value
        if task is None and cache.is_busy:  # the run then ends with its call, so that disconnected clients add no runs
            cache.counts[self._name, "bypassed"] += 1
            return await run()
        if task is None:
            task = cache.start(key, functools.partial(self._make, key, run))
        else:
            cache.counts[self._name, "shared"] += 1
        return (await asyncio.shield(task)).unwrap()

    def _key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes | None:
        """Return the cache key of a call; return None if the call has none and is not cached.

        Two calls with the same key have the same result. A call has no key if its arguments cannot be written as JSON,
        or if its caller is not known, as in a task.
        """
        asked: list[Any] = [args, {**self._defaults, **kwargs}]
        if self._policy.scope == "caller":
            of_caller = current_cache_key()
            if of_caller is None:
                return None
            asked += of_caller
        try:
            key = orjson.dumps(asked, _written, orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS)
            if b"null" in key:  # None, NaN and the infinities
                key = json.dumps(asked, default=_written, sort_keys=True).encode()
        except (TypeError, ValueError):
            return None
        return self._head + key

    async def _renew(self, key: bytes, run: _Run) -> Any:
        """Produce a new result while callers still get the old one."""
        try:
            return await self._make(key, run)
        except Exception:
            logger.warning("tool %r: the cached result could not be renewed", self._name, exc_info=True)
            raise

    async def _make(self, key: bytes, run: _Run) -> Any:
        call_limits.set_deadline(None)  # drop the first call's deadline: other calls wait for this run, too
        call_limits.set_deadline(self._seconds)
        try:
            async with asyncio.timeout(self._seconds) as limit:
                if self._cache.shared is not None:
                    return await self._make_for_all(self._cache.shared, key, run)
                self._cache.counts[self._name, "miss"] += 1
                return await self._run(key, run)
        except TimeoutError:
            if not limit.expired():  # the tool itself raised TimeoutError
                raise
            raise out_of_time("tool", self._name, self._seconds) from None

    async def _make_for_all(self, shared: SharedResults, key: bytes, run: _Run) -> Any:
        """Return another replica's result, or run the tool while other replicas wait for the result."""
        name = hashlib.blake2b(key, digest_size=20).hexdigest()
        entry = await shared.get(name, self._adapter)
        if entry is None or time.time() >= entry.fresh:
            entry = await shared.begin(name, self._adapter, self._seconds)
            if entry is None:
                self._cache.counts[self._name, "bypassed" if shared.away else "miss"] += 1
                try:
                    return await self._run(key, run, name)
                finally:
                    await shared.end(name)
        self._cache.counts[self._name, "shared"] += 1
        self._cache.keep(key, entry)
        return entry.value

    async def _run(self, key: bytes, run: _Run, name: str = "") -> Any:
        value = await run()
        if isinstance(value, _REPLIES):
            return value
        try:
            written = to_json(value)
        except (PydanticSerializationError, ValueError):  # an image, for instance
            return value
        fresh = time.time() + self._policy.ttl
        entry = CachedResult(value, fresh, fresh + self._policy.stale, len(written) + len(key))
        self._cache.keep(key, entry)
        if self._cache.shared is not None:
            await self._cache.shared.put(name, entry, written)
        return value


def _written(value: Any) -> Any:
    """Return the form of an argument for the cache key, as data for JSON. Different values have different forms."""
    if isinstance(value, SecretStr | SecretBytes):  # its JSON is the same for each secret
        return ["secret", to_jsonable_python(value.get_secret_value())]
    if isinstance(value, BaseModel):
        return [type(value).__qualname__, vars(value), value.model_extra or {}]
    if is_dataclass(value) and not isinstance(value, type):
        return [type(value).__qualname__, {each.name: getattr(value, each.name) for each in fields(value)}]
    if isinstance(value, AbstractSet):
        return sorted(map(_sortable, value))
    if isinstance(value, tuple | deque):
        return list(value)
    return to_jsonable_python(value)


def _sortable(value: Any) -> str:
    return json.dumps(value, default=_written, sort_keys=True)
