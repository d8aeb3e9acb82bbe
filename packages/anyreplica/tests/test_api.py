"""Tests of the public API: the names that `anyreplica` and `anyreplica.testing` export."""

import ast
import contextlib
import importlib.util
import inspect
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import pytest

import anyreplica
import anyreplica.testing
from conftest import SOURCE
from tests.test_private_names import imports, modules
from tests.type_check import accepted_by_mypy

_SDK_CLASSES = {"PromptsListChanged", "ResourceUpdated", "ResourcesListChanged", "ToolsListChanged"}
"""Classes of the MCP SDK. The example of `publish` shows how to use them."""
_NAMES = [
    (module, name)
    for module in (anyreplica, anyreplica.testing)
    for name in module.__all__
    if name != "__version__" and name not in _SDK_CLASSES
]


def _example(module: ModuleType, name: str) -> str:
    """Return the example in the docstring of a public name."""
    example = (inspect.getdoc(getattr(module, name)) or "").partition("Example:\n")[2]
    return textwrap.dedent(re.split(r"\n(?=\S)", example.strip("\n"))[0]) + "\n"


@pytest.mark.parametrize(("module", "name"), _NAMES, ids=[name for _, name in _NAMES])
def test_each_name_has_a_docstring_with_an_example(module: ModuleType, name: str) -> None:
    """The docstring of each public name has a complete first line and an example in valid Python."""
    text = inspect.getdoc(getattr(module, name)) or ""
    assert text.partition("\n")[0].rstrip().endswith((".", ":")), "the first line must be a complete sentence"
    assert "Example:\n" in text, "the docstring has no example"
    ast.parse(_example(module, name))


@pytest.mark.slow
@pytest.mark.servers
def test_examples_have_the_right_types(tmp_path: Path) -> None:
    """mypy accepts the examples in the docstrings of all public names."""
    for module, name in _NAMES:
        (tmp_path / f"example_{name.lower()}.py").write_text(_example(module, name))
    accepted, said = accepted_by_mypy(tmp_path)
    assert accepted, said


def test_each_exported_name_exists() -> None:
    """Each exported name can be imported, and `dir` lists it."""
    for name in anyreplica.__all__:
        assert getattr(anyreplica, name) is not None
        assert name in dir(anyreplica)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        anyreplica.nothing  # noqa: B018


_LOOK = """
import gc, importlib, logging, os, signal, sys, threading
for name in sys.argv[1].split():
    importlib.import_module(name)
def state():
    return (dict(os.environ), gc.get_threshold(), gc.get_freeze_count(), logging.getLogger().handlers[:],
            signal.getsignal(signal.SIGTERM), threading.active_count(), list(sys.path))
def attributes():
    found = {}
    for name in sys.argv[1].split():
        module = sys.modules[name]
        for owner in (module, *(each for each in vars(module).values() if getattr(each, "__module__", "") == name)):
            for attribute, value in vars(owner).items() if hasattr(owner, "__dict__") else ():
                found[name, getattr(owner, "__qualname__", ""), attribute] = value
    return found
before, values = state(), attributes()
import anyreplica
for name in anyreplica.__all__:
    getattr(anyreplica, name)
for name in sys.argv[2].split():
    importlib.import_module(name)
after, new = state(), attributes()
assert before == after, [pair for pair in zip(before, after) if pair[0] != pair[1]]
own_to_a_module = {"__builtins__", "__warningregistry__"}
changed = [key for key, value in values.items() if new.get(key) is not value and key[2] not in own_to_a_module]
assert not changed, changed
"""


@pytest.mark.servers
def test_an_import_has_no_side_effects() -> None:
    """An import changes nothing global: no environment, signal, handler or thread, and nobody else's attribute."""
    files = [file.relative_to(SOURCE.parent).with_suffix("") for file in SOURCE.rglob("*.py")]
    own = [".".join(file.parts) for file in files if not file.stem.startswith("__")]
    names = {name for module in modules() for _, name in imports(module.tree) if name.split(".")[0] in _PATCHABLE}
    others = sorted(filter(_is_module, names | {name.rpartition(".")[0] for name in names} - {""}))
    command = [sys.executable, "-c", _LOOK, " ".join(others), " ".join(own)]
    subprocess.run(command, env=os.environ, check=True, timeout=60)


@pytest.mark.servers
@pytest.mark.parametrize(
    "what",
    [
        *(f"from anyreplica import {name}" for name in ("Settings", "StartupError", "cached", "check", "publish")),
        *(f"import anyreplica.cli.{command}" for command in ("audit", "deploy", "init", "install", "main")),
    ],
)
def test_what_needs_no_fastmcp_does_not_import_it(what: str) -> None:
    """FastMCP takes a second to import, and reads its settings then. Many commands and modules need no FastMCP."""
    command = [sys.executable, "-c", f"import sys; {what}; sys.exit('fastmcp' in sys.modules)"]
    subprocess.run(command, env=os.environ, check=True, timeout=60)


_PATCHABLE = ["anyio", "docket", "fastmcp", "fastmcp_tasks", "httpx2", "mcp", "redis", "starlette", "uvicorn"]
"""Packages whose modules this package could change."""


def _is_module(name: str) -> bool:
    with contextlib.suppress(ModuleNotFoundError):
        return importlib.util.find_spec(name) is not None
    return False


def test_each_public_name_is_defined_once() -> None:
    """No two modules define a public class or constant with the same name."""
    homes: dict[str, list[str]] = {}
    for file in SOURCE.rglob("*.py"):
        for node in ast.parse(file.read_text()).body:
            for name in _defined(node):
                homes.setdefault(name, []).append(str(file.relative_to(SOURCE)))
    assert not {name: files for name, files in homes.items() if len(files) > 1}


def _defined(node: ast.stmt) -> list[str]:
    """Return the public classes and constants of a statement, without type variables (names of one letter)."""
    if isinstance(node, ast.ClassDef):
        return [] if node.name.startswith("_") else [node.name]
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = [each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]
        return [name for name in names if name[0].isupper() and len(name) > 1]
    return []
