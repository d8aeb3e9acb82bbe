"""The page that documents the public Python API, from signatures and docstrings."""

import ast
import inspect
import logging
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import griffe

import anyreplica
import anyreplica.testing
from anyreplica import downstream

_INTRODUCTION = """\
# Python API

Tools, jobs and tests import names from `anyreplica` and `anyreplica.testing`. These names are the public API: they
follow the [deprecation policy](../explanation/versioning.md). Everything else in the package may change in any
release.

<!-- This page is generated from the docstrings. Edit them and run `make reference`. -->
"""
_OF_THE_SDK = ("PromptsListChanged", "ResourceUpdated", "ResourcesListChanged", "ToolsListChanged")
"""Event classes that anyreplica takes over from the MCP SDK."""
_LONGEST = 100
"""Characters of a signature on one line."""
_SECTIONS = {
    "parameters": "Arguments",
    "attributes": "Attributes",
    "raises": "Raises",
    "returns": "Returns",
    "yields": "Yields",
}


def page() -> str:
    """Return the page as Markdown."""
    logging.getLogger("griffe").setLevel(logging.ERROR)  # griffe warns of arguments that have no type in the docstring
    text = "\n".join([_INTRODUCTION, *_module(anyreplica), *_module(anyreplica.testing)])
    ruff = [str(Path(sys.executable).with_name("ruff")), "format", "--quiet", "--stdin-filename", "python-api.md", "-"]
    text = re.sub(r"\n{3,}", "\n\n", text)
    done = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True)
    return done.stdout


def _module(module: ModuleType) -> Iterator[str]:
    yield f"## {module.__name__}\n"
    for name in sorted(module.__all__, key=str.lower):
        if name == "__version__":
            yield "### `__version__`\n\nThe version of anyreplica, as text.\n"
        elif name == "downstream":
            yield from _downstream()
        elif name in _OF_THE_SDK:
            yield f"### `{name}`\n\nEvent class of the MCP SDK for [`publish`](#publish).\n"
        else:
            # `create_app` makes an App: authors call neither its constructor nor its methods.
            yield from _entry(name, getattr(module, name), "###", described=name != "App")


def _downstream() -> Iterator[str]:
    yield f"### `downstream`\n\n{_text(inspect.getdoc(downstream) or '')}\n"
    for name in ("get", "post", "request"):
        yield from _entry(f"downstream.{name}", getattr(downstream, name), "####")
    for name in downstream.__all__:
        value = getattr(downstream, name)
        if inspect.isclass(value) and issubclass(value, Exception):
            yield from _entry(f"downstream.{name}", value, "####", described=False)


def _entry(name: str, value: Any, level: str, *, described: bool = True) -> Iterator[str]:
    """Yield the heading and the docstring of a name; `described` adds its signature and the methods of a class."""
    yield f"{level} `{name}`\n"
    signature = _signature(name, value) if described else ""
    if signature:
        yield f"```text\n{signature}\n```\n"
    yield _docstring(value)
    if described and inspect.isclass(value) and not issubclass(value, Exception):
        for method in _own_names(value):
            function = getattr(value, method)
            if not method.startswith("_") and inspect.isroutine(function) and inspect.getdoc(function):
                yield from _entry(f"{name}.{method}", function, f"{level}#")


def _own_names(cls: type) -> Iterable[str]:
    """Return the names that a class and its bases in anyreplica add to the bases of other packages."""
    ours = [each for each in cls.__mro__ if each.__module__.startswith("anyreplica")]
    others = [each for each in cls.__mro__ if each not in ours]
    names = dict.fromkeys(name for each in ours for name in vars(each))
    return [name for name in names if not any(name in vars(each) for each in others)]


def _signature(name: str, value: Any) -> str:
    """Return the signature as the source has it, one argument per line if it is long; empty if there is none."""
    node = ast.parse(textwrap.dedent(inspect.getsource(value))).body[0]
    if isinstance(node, ast.ClassDef):
        constructors = [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"]
        if not constructors:
            return ""
        node = constructors[0]
        node.returns = None
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        raise TypeError(f"{name} is neither a class nor a function")
    given = node.args
    first = (given.posonlyargs or given.args or [ast.arg("")])[0].arg
    if first in ("self", "cls"):
        (given.posonlyargs or given.args).pop(0)
    returned = f" -> {_shown(node.returns)}" if node.returns else ""
    awaited = "await " if isinstance(node, ast.AsyncFunctionDef) else ""
    head, arguments = f"{awaited}{name.rpartition('.')[2]}", _shown(given)
    if len(head) + len(arguments) + len(returned) <= _LONGEST:
        return f"{head}({arguments}){returned}"
    lines = "".join(f"    {each},\n" for each in _split(arguments))
    return f"{head}(\n{lines}){returned}"


def _split(arguments: str) -> Iterable[str]:
    """Split at the commas that are not inside brackets."""
    parts, depth = [""], 0
    for character in arguments:
        depth += (character in "[({") - (character in "])}")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def _shown(node: ast.AST) -> str:
    return ast.unparse(node).replace("'", '"')


def _docstring(value: Any) -> str:
    parts = []
    for section in griffe.Docstring(inspect.getdoc(value) or "", parser="google").parse():
        if section.kind.value == "text":
            parts.append(_text(section.value))
        elif section.kind.value in _SECTIONS:
            parts.append(f"**{_SECTIONS[section.kind.value]}**\n\n" + "\n".join(map(_item, section.value)) + "\n")
    return "\n".join(parts)


def _item(element: Any) -> str:
    name = getattr(element, "name", "") or (element.annotation or "")
    text = " ".join(str(element.description).split())
    return f"- `{name}`: {text}" if name else f"- {text}"


def _text(text: str) -> str:
    """Turn the example of a docstring, which is indented, into a code block."""
    before, found, example = text.partition("Example:\n")
    if not found:
        return _dedented_blocks(text) + "\n"
    code, after = _indented(example)
    return f"{_dedented_blocks(before.rstrip())}\n\n```python\n{code}\n```\n\n{after}".rstrip() + "\n"


def _dedented_blocks(text: str) -> str:
    return re.sub(
        r"(?m)(?:^    .*\n?(?:\n(?=    ))*)+", lambda m: f"```python\n{textwrap.dedent(m[0]).strip()}\n```\n", text
    )


def _indented(text: str) -> tuple[str, str]:
    """Return the indented lines at the beginning, without their indentation, and the text that follows them."""
    lines = text.strip("\n").splitlines()
    end = next((number for number, line in enumerate(lines) if line and not line.startswith(" ")), len(lines))
    return textwrap.dedent("\n".join(lines[:end])).strip(), "\n".join(lines[end:]).strip()
