"""`worker.py SECONDS TASK`: one piece of work, from stdin to stdout, as JSON; see `apart.py`."""

import json
import resource
import sys
from collections.abc import Callable
from itertools import islice
from typing import Any

MOST_BYTES = 1024 * 1024
"""Of a result, as JSON."""

_MEMORY = 256 * 1024 * 1024
_ERRORS = 20
_LONGEST = 300


class Refused(Exception):
    """The work can't be done; `str()` says why."""


def transform(data: Any, expression: str) -> Any:
    """What a JMESPath expression makes of a document.

    Raises:
        Refused: it is none, or doesn't fit the document.
    """
    import jmespath  # type: ignore[import-untyped]  # noqa: PLC0415  # each task has its own
    from jmespath.exceptions import JMESPathError  # type: ignore[import-untyped]  # noqa: PLC0415
    from jmespath.functions import Functions, signature  # type: ignore[import-untyped]  # noqa: PLC0415

    _close()

    class More(Functions):  # type: ignore[misc]
        @signature({"types": ["array"]}, {"types": ["expref"]})  # type: ignore[untyped-decorator]
        def _func_group_by(self, items: list[Any], by: Any) -> dict[str, list[Any]]:
            groups: dict[str, list[Any]] = {}
            for item in items:
                name = by.visit(by.expression, item)
                if name is not None and not isinstance(name, str):
                    name = json.dumps(name)
                groups.setdefault("null" if name is None else name, []).append(item)
            return groups

    try:
        return jmespath.search(expression, data, jmespath.Options(custom_functions=More()))
    except JMESPathError as error:
        raise Refused(f"the expression can't be used: {' '.join(str(error).split())[:_LONGEST]}") from None
    except (TypeError, ValueError, AttributeError, ArithmeticError):  # as of sorting what has no order
        raise Refused("the expression doesn't fit the data") from None


def validate(data: Any, schema: Any) -> Any:
    """What is wrong with a document by a JSON Schema, as far as a caller wants to know.

    Raises:
        Refused: the schema is none, or refers to another document.
    """
    import jsonschema  # type: ignore[import-untyped]  # noqa: PLC0415
    from jsonschema.exceptions import SchemaError  # type: ignore[import-untyped]  # noqa: PLC0415
    from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]  # noqa: PLC0415  # which fetches nothing
    from referencing.exceptions import Unresolvable  # noqa: PLC0415

    _close()
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        kind.check_schema(schema)
        found = kind(schema, registry=REGISTRY, format_checker=kind.FORMAT_CHECKER).iter_errors(data)
        errors = [_shown(error) for error in islice(found, _ERRORS)]
    except SchemaError as error:
        shown = _shown(error)
        raise Refused(f"the schema is none, at {shown['path']}: {shown['message']}") from None
    except Unresolvable as error:
        raise Refused(f"the schema refers to what isn't in it, and is not fetched: {error.ref[:_LONGEST]}") from None
    return {"valid": not errors, "errors": errors}


def _shown(error: Any) -> dict[str, str]:
    return {"path": error.json_path[:_LONGEST], "message": error.message[:_LONGEST]}


def _close() -> None:
    """Let nothing more be opened: no file, no connection."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))


TASKS: dict[str, Callable[..., Any]] = {"transform": transform, "validate": validate}


def main(seconds: int, task: str) -> None:
    """Do it."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":  # elsewhere there is no such bound, but that of the time
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    try:
        reply = {"result": TASKS[task](**json.load(sys.stdin.buffer))}
    except Refused as refused:
        reply = {"refused": str(refused)}
    except RecursionError:
        reply = {"refused": "that is nested too deep"}
    except MemoryError:
        reply = {"refused": "that took too much memory; ask for less"}
    except Exception as error:  # noqa: BLE001  # of what isn't foreseen its caller learns the kind
        reply = {"refused": f"that can't be done ({type(error).__name__})"}
    try:
        written = json.dumps(reply, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError):  # NaN, or text that isn't Unicode
        written = json.dumps({"refused": "the result can't be written as JSON"}).encode()
    except MemoryError:
        written = json.dumps({"refused": "the result takes too much memory; ask for less"}).encode()
    if len(written) > MOST_BYTES:
        written = json.dumps({"refused": f"the result is larger than {MOST_BYTES} bytes; ask for less"}).encode()
    sys.stdout.buffer.write(written)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
