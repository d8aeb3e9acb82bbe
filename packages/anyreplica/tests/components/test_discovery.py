"""Tests of the discovery of components."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastmcp import FastMCP

from anyreplica import Settings, create_app
from anyreplica.components.discovery import discover
from anyreplica.components.importing import DiscoveryError
from anyreplica.mcp.compat.threads import Threads
from anyreplica.settings.errors import StartupError

TOOL = "from fastmcp.tools import tool\n\n@tool\nasync def {name}() -> str:\n    '''A tool.'''\n    return ''\n"


@pytest.fixture
def pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty package `pack`. Its modules are removed after the test."""
    folder = tmp_path / "pack"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    yield folder
    for name in [name for name in sys.modules if name == "pack" or name.startswith("pack.")]:
        del sys.modules[name]


def write(path: Path, text: str) -> None:
    """Write a file and create its parent folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def keys(*packages: str) -> list[str]:
    """Return the keys of the components that discovery finds in packages."""
    return [found.component.key for found in discover(Settings(mcp_components=packages), Threads).components]


def refusal(*packages: str) -> str:
    """Return the text of the error that discovery raises."""
    with pytest.raises(DiscoveryError) as error:
        discover(Settings(mcp_components=packages), Threads)
    return str(error.value)


def test_the_shipped_examples() -> None:
    """Discovery finds the components of the sample, and with AUTO_DISCOVER=false nothing."""
    assert set(keys("server")) >= {
        "prompt:summarize@",
        "resource:template://about@",
        "template:template://greeting/{language}/{name}@",
        "tool:add@",
        "tool:echo@",
        "tool:server_info@",
    }
    assert discover(Settings(auto_discover=False), Threads).components == []


def test_component_folders_are_searched_completely(pack: Path) -> None:
    """Discovery searches the component folders at any depth, but no names with `_` or `.` and no other modules."""
    write(pack / "tools/top.py", TOOL.format(name="top"))
    write(pack / "tools/__init__.py", TOOL.format(name="in_the_room_itself"))
    write(pack / "tools/deep/er/nested.py", TOOL.format(name="nested"))
    write(pack / "tools/my-tools.py", TOOL.format(name="hyphenated"))
    write(pack / "prompts/asks.py", "from fastmcp.prompts import prompt\n\n@prompt\ndef asks() -> str: return ''\n")
    for left_out in ("tools/_private.py", "tools/_folder/hidden.py", "tools/.hidden/hidden.py", "beside.py"):
        write(pack / left_out, "raise RuntimeError('imported')\n")
    found = ["tool:in_the_room_itself@", "tool:nested@", "tool:hyphenated@", "tool:top@", "prompt:asks@"]
    assert keys("pack") == found


def test_a_package_without_component_folders_is_searched_completely(pack: Path) -> None:
    """Discovery searches all modules of a package that has no component folders."""
    write(pack / "one.py", TOOL.format(name="one"))
    write(pack / "more/two.py", TOOL.format(name="two"))
    assert keys("pack") == ["tool:two@", "tool:one@"]
    assert keys("pack.one") == ["tool:one@"]


SHARED = TOOL.format(name="shared") + "\nalias = shared\n\n" + TOOL.format(name="_private")
IMPORTS = "from pack.a import shared\n\ndef plain() -> None: ...\n"
MADE = "from fastmcp.resources import TextResource\n\nmotd = TextResource(uri='x://motd', name='motd', text='hi')\n"
VERSION = "from fastmcp.tools import tool\n\n@tool(version='{0}')\ndef f() -> int: return {0}\n"
OF_TOOL, OF_RESOURCE = "from fastmcp.tools import tool\n", "from fastmcp.resources import resource\n"


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"a.py": SHARED, "b.py": IMPORTS}, ["tool:shared@"]),
        ({"made.py": MADE}, ["resource:x://motd@"]),
        ({"v1.py": VERSION.format(1), "v2.py": VERSION.format(2)}, ["tool:f@1", "tool:f@2"]),
    ],
    ids=["public functions", "made by hand", "versions"],
)
def test_what_is_a_component(pack: Path, files: dict[str, str], found: list[str]) -> None:
    """FastMCP's own objects and each version are components; private and imported functions and aliases are not."""
    for name, text in files.items():
        write(pack / name, text)
    assert keys("pack") == found


def test_components_from_a_factory_or_a_decorator_are_served(pack: Path) -> None:
    """A component from a factory or a plain decorator is served, although its function belongs to another module."""
    write(
        pack / "_made.py",
        "from fastmcp.tools import tool\n\n"
        "def make(name: str):\n    async def made() -> str: return name\n    return tool(name)(made)\n\n"
        "def plain(fn):\n    async def wrapper() -> str: return await fn()\n    return wrapper\n",
    )
    write(
        pack / "uses.py",
        "from fastmcp.tools import tool\nfrom pack._made import make, plain\n\norders = make('orders')\n\n"
        "@tool('wrapped')\n@plain\nasync def f() -> str: return ''\n",
    )
    assert keys("pack") == ["tool:wrapped@", "tool:orders@"]
    assert keys("pack", "pack") == ["tool:wrapped@", "tool:orders@"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import no_such_thing\n", "pack/bad.py:1: ModuleNotFoundError: No module named 'no_such_thing'"),
        ("x = 1\n\nraise ValueError('why')\n", "pack/bad.py:3: ValueError: why"),
        ("def broken(:\n", "pack/bad.py:1: invalid syntax"),
        ("import sys\nsys.exit('bye')\n", "pack/bad.py:2: SystemExit: bye"),
        ("from pack.good import missing\n", "pack/bad.py:1: ImportError: cannot import name 'missing'"),
        (f"{OF_TOOL}@tool\ndef f(*a: int): ...\n", "pack/bad.py:2: f: Functions with *args are not supported as tools"),
        (
            f"{OF_TOOL}class Odd: ...\n@tool\ndef f(x: Odd): ...\n",
            "pack/bad.py:3: f: Unable to generate pydantic-core schema for <class 'pack.bad.Odd'>",
        ),
        (f"{OF_RESOURCE}@resource('x://{{a}}')\ndef f(b: str): ...\n", "pack/bad.py:2: f: Required function arguments"),
        (TOOL.format(name="good"), "pack/good.py:3: tool 'good' is already defined at pack/bad.py:3"),
    ],
)
def test_a_broken_module_stops_the_start(pack: Path, text: str, says: str) -> None:
    """A broken module stops the start with its file, line and reason in one line."""
    write(pack / "good.py", TOOL.format(name="good"))
    write(pack / "bad.py", text)
    assert refusal("pack").startswith(says)
    assert "\n" not in refusal("pack")


def test_a_missing_package_stops_the_start() -> None:
    """A missing package stops the start with a line that names MCP_COMPONENTS."""
    expected = "MCP_COMPONENTS=no_such_pack: ModuleNotFoundError: No module named 'no_such_pack'"
    assert refusal("server", "no_such_pack") == expected


def test_a_private_name_with_a_decorator_is_named(pack: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Discovery serves no private names. The log says so, because the author has written a decorator."""
    write(pack / "tools" / "one.py", TOOL.format(name="_hidden") + TOOL.format(name="shown"))
    assert keys("pack") == ["tool:shown@"]
    text = "pack/tools/one.py:3: _hidden has a decorator, but no client sees it, because its name begins with _"
    assert caplog.messages == [text]


LAZY = "class Lazy:\n    def __getattr__(self, name): raise RuntimeError(name)\n\n_lazy = Lazy()\n"


def test_a_private_function_may_have_a_public_name(pack: Path, caplog: pytest.LogCaptureFixture) -> None:
    """FastMCP's decorator returns the function itself. Other private objects are not touched."""
    function = "from fastmcp.tools import tool\n\ndef _price() -> int: return 1\n\nprice = tool(_price, name='price')\n"
    write(pack / "tools" / "one.py", function + LAZY)
    assert keys("pack") == ["tool:price@"]
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("file", "content", "warned"),
    [
        ("tools/one.py", "async def forgotten() -> str: return ''\n", True),
        ("jobs/deep/one.py", "def forgotten(): pass\n", True),
        ("tools/_one.py", "def helper(): pass\n", False),
        ("tools/one.py", "def helper(): pass\n" + TOOL.format(name="served"), False),
        ("tools/one.py", "from json import dumps\nTABLE = {}\n", False),
        ("tools/one.py", "from anyreplica import lifespan\n\n@lifespan\nasync def opened(): yield\n", False),
        ("helpers.py", "def helper(): pass\n", False),
    ],
)
def test_a_file_of_tools_without_a_decorator_is_named(
    pack: Path, file: str, content: str, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The author has probably forgotten it. A file of helpers has a private name, or is in another folder."""
    write(pack / "tools" / "other.py", TOOL.format(name="other"))
    write(pack / file, content)
    keys("pack")
    text = "has no decorator, such as @tool, so no client sees it; begin the name of a file of helpers with _"
    assert [each for each in caplog.messages if each.endswith(text)] == caplog.messages
    assert len(caplog.messages) == warned


def test_a_missing_package_has_a_remedy_in_a_project(pack: Path) -> None:
    """The Makefile of the template has a target for it."""
    write(pack / "tools" / "one.py", "import no_such_package\n")
    plain = "pack/tools/one.py:1: ModuleNotFoundError: No module named 'no_such_package'"
    assert refusal("pack") == plain
    Path("Makefile").write_text("all:\nadd: ready\n")
    name = "no_such_package"
    assert refusal("pack") == f"{plain}; if it is a package, run make add PACKAGE={name}"


def test_one_object_for_two_apps_is_refused() -> None:
    """A `create_mcp` that returns the object of its module would add all components to it a second time."""
    mcp = FastMCP("server")
    create_app(mcp, Settings(mcp_components=("server",)))
    with pytest.raises(StartupError, match=r"got the same FastMCP object a second time.*inside of create_mcp"):
        create_app(mcp, Settings(mcp_components=("server",)))
    create_app(mcp, Settings(mcp_components=()))
