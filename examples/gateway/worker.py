"""The script `worker.py SECONDS TASK`, which runs one task with JSON on stdin and stdout; `apart.py` starts it."""

import json
import resource
import sys
from collections.abc import Callable
from itertools import islice
from typing import Any

MOST_BYTES = 1024 * 1024
"""Maximum size of a result as JSON, in bytes."""

_MEMORY = 256 * 1024 * 1024
_ERRORS = 20
_LONGEST = 300


class Refused(Exception):
    """The task can't be done; `str()` gives the reason."""


def transform(data: Any, expression: str) -> Any:
    """Return the result of a JMESPath expression for a document.

    Raises:
        Refused: The expression is invalid or does not fit the document.
    """
    import jmespath  # type: ignore[import-untyped]  # noqa: PLC0415  # Each task imports only its own library.
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
        raise Refused(f"The expression is invalid: {' '.join(str(error).split())[:_LONGEST]}") from None
    except (TypeError, ValueError, AttributeError, ArithmeticError):  # For example: values that can't be sorted.
        raise Refused("The expression does not fit the data.") from None


def validate(data: Any, schema: Any) -> Any:
    """Validate a document against a JSON Schema and return `valid` and the first 20 `errors`.

    Raises:
        Refused: The schema is invalid or refers to another document.
    """
    import jsonschema  # type: ignore[import-untyped]  # noqa: PLC0415
    from jsonschema.exceptions import SchemaError  # type: ignore[import-untyped]  # noqa: PLC0415
    from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]  # noqa: PLC0415  # It fetches nothing.
    from referencing.exceptions import Unresolvable  # noqa: PLC0415

    _close()
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        kind.check_schema(schema)
        found = kind(schema, registry=REGISTRY, format_checker=kind.FORMAT_CHECKER).iter_errors(data)
        errors = [_shown(error) for error in islice(found, _ERRORS)]
    except SchemaError as error:
        shown = _shown(error)
        raise Refused(f"The schema is invalid at {shown['path']}: {shown['message']}") from None
    except Unresolvable as error:
        raise Refused(f"The schema refers to another document, which is not fetched: {error.ref[:_LONGEST]}") from None
    return {"valid": not errors, "errors": errors}


def _shown(error: Any) -> dict[str, str]:
    return {"path": error.json_path[:_LONGEST], "message": error.message[:_LONGEST]}


def _close() -> None:
    """Prevent this process from opening more files and connections."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))


TASKS: dict[str, Callable[..., Any]] = {"transform": transform, "validate": validate}


def main(seconds: int, task: str) -> None:
    """Run the task with a limit of CPU time in seconds."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":  # Other systems can't limit the memory; there only the time limit applies.
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    try:
        reply = {"result": TASKS[task](**json.load(sys.stdin.buffer))}
    except Refused as refused:
        reply = {"refused": str(refused)}
    except RecursionError:
        reply = {"refused": "The data or the expression is nested too deeply."}
    except MemoryError:
        reply = {"refused": "The task needed too much memory; use less data."}
    except Exception as error:  # noqa: BLE001  # The caller learns only the kind of an unexpected error.
        reply = {"refused": f"The task failed ({type(error).__name__})."}
    try:
        written = json.dumps(reply, allow_nan=False, ensure_ascii=False).encode()
    except (ValueError, RecursionError):  # The result contains NaN or text that is not Unicode.
        written = json.dumps({"refused": "The result can't be written as JSON."}).encode()
    except MemoryError:
        written = json.dumps({"refused": "The result needs too much memory; use less data."}).encode()
    if len(written) > MOST_BYTES:
        written = json.dumps({"refused": f"The result is too large: the limit is {MOST_BYTES} bytes."}).encode()
    sys.stdout.buffer.write(written)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
