"""Lua scripts for Redis, as typed Python classes. Redis runs a script atomically: no other command runs in between."""

import hashlib
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, TypeVar, cast, dataclass_transform, get_origin

from anyreplica.shared.lost_redis import translate_redis_errors

if TYPE_CHECKING:
    from redis.asyncio import Redis

Result = TypeVar("Result")

RedisKey = Annotated[str, "key"]
"""Type of a field that contains the name of a key in Redis."""

RedisKeys = Annotated[list[str], "keys"]
"""Type of a field that contains the names of several keys. They are the last values of `KEYS`."""

_NUMBERS, _TEXTS = (int, float, bool), (str, bytes)


@dataclass_transform()
class Script(Generic[Result]):
    """A script. A subclass has a field for each key and for each argument, and the text of the script in `lua`.

    A field of type `RedisKey` or `RedisKeys` has keys; every other field is an argument. In the text, each field is a
    local variable with the name of the field. Integers, floats and booleans are numbers there, and True is 1. The
    values of a list are the last ones of `ARGV`, or of `KEYS` if its type is `RedisKeys`. For a list `values`, the
    variable `values_start` is the index of the first one.

    The script begins with the variables of all fields. Then comes the text of the base class, if it has one, and then
    the text of the class. So a local variable of the base's text hides a field with the same name.

    A subclass is a dataclass. `Result` is the type that redis-py returns.
    """

    lua: ClassVar[str] = ""
    _text: ClassVar[str]
    _hash: ClassVar[str]
    _fields: ClassVar[list[tuple[str, bool]]]
    """The name of each field, and whether it has keys."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        dataclass(cls, eq=False, repr=False, match_args=False)
        texts = [base.__dict__.get("lua", "") for base in reversed(cls.__mro__)]
        cls._fields = [(field.name, field.type in (RedisKey, RedisKeys)) for field in fields(cast("Any", cls))]
        cls._text = "\n".join([*_declarations(cls), *texts])
        cls._hash = hashlib.sha1(cls._text.encode(), usedforsecurity=False).hexdigest()

    async def run(self, redis: "Redis") -> Result:
        """Run the script with the values of the fields, and return its result.

        Redis caches the text, so only its hash is sent. If Redis does not know the hash, the text is sent.

        Raises:
            OSError: Redis cannot be reached, or the script has failed.
        """
        from redis.exceptions import NoScriptError  # noqa: PLC0415  # as in anyreplica.shared.redis

        count, values = self._values()
        with translate_redis_errors():
            try:
                result: Any = await redis.evalsha(self._hash, count, *values)
            except NoScriptError:
                result = await redis.eval(self._text, count, *values)
        return cast("Result", result)

    def add_to(self, pipeline: Any) -> None:
        """Add the script to a pipeline of redis-py, with its text."""
        count, values = self._values()
        pipeline.eval(self._text, count, *values)

    def _values(self) -> tuple[int, list[str | bytes]]:
        """Return the number of keys, and the keys and the arguments as texts or bytes."""
        keys: list[str | bytes] = []
        arguments: list[str | bytes] = []
        for name, has_keys in self._fields:
            value = getattr(self, name)
            (keys if has_keys else arguments).extend(map(_encoded, value if isinstance(value, list) else [value]))
        return len(keys), keys + arguments


def _declarations(script: type[Script[Any]]) -> list[str]:
    """Return the lines of Lua that declare a variable for each field.

    Raises:
        TypeError: the type of a field is not supported, or a field comes after a list in `KEYS` or `ARGV`.
    """
    lines = []
    counts = {"KEYS": 0, "ARGV": 0}
    ended = set[str]()
    for field in fields(cast("Any", script)):
        source = "KEYS" if field.type in (RedisKey, RedisKeys) else "ARGV"
        if source in ended:
            raise TypeError(f"{script.__name__}.{field.name}: a list must be the last field of {source}")
        if field.type == RedisKeys or get_origin(field.type) is list:
            ended.add(source)
            lines.append(f"local {field.name}_start = {counts[source] + 1}")
            continue
        if field.type not in (RedisKey, *_NUMBERS, *_TEXTS):
            raise TypeError(f"{script.__name__}.{field.name}: the type {field.type} is not supported")
        counts[source] += 1
        value = f"{source}[{counts[source]}]"
        lines.append(f"local {field.name} = {f'tonumber({value})' if field.type in _NUMBERS else value}")
    return lines


def _encoded(value: Any) -> str | bytes:
    """Return a value as Redis gets it: True is 1, and a number is its shortest exact text."""
    if isinstance(value, bytes):
        return value
    return str(int(value) if isinstance(value, bool) else value)
