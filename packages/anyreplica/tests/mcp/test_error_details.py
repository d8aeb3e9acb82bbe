"""Tests of `mask_error_details`: the choice of a server's author decides who sees the texts of unexpected errors."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastmcp
import pytest
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError

from anyreplica import App, Settings, app_factory, create_app
from anyreplica.cli.source import app_from
from anyreplica.mcp.compat.masking import note_choices
from anyreplica.testing import CallFailed, Client, replica
from tests.auth.test_crossing import served

REASON = "no such column: nmae"


@pytest.fixture(autouse=True)
def _noted() -> None:
    """Note the choices of authors, as the command does before it imports their code."""
    note_choices()


@pytest.fixture
def _unnoted(monkeypatch: pytest.MonkeyPatch, _noted: None) -> None:
    """Make the class of FastMCP as it was before anything of this package ran."""
    monkeypatch.setattr(FastMCP, "__init__", inspect.unwrap(FastMCP.__init__))


def failing(name: str, **options: Any) -> FastMCP:
    """Return a server whose components fail. One of its tools takes the FastMCP path."""
    mcp = FastMCP(name, **options)

    def fails() -> str:
        raise ValueError(REASON)

    def fails_for(key: str) -> str:
        raise ValueError(REASON)

    @mcp.tool
    def told() -> str:
        raise ToolError("for everyone")

    @mcp.tool
    async def with_context(ctx: Context) -> str:
        raise ValueError(REASON)

    mcp.tool(fails, name="plain")
    mcp.tool(fails, name="versioned", version="1")
    mcp.tool(fails, name="versioned", version="2")
    mcp.resource("data://fails")(fails)
    mcp.resource("data://fails/{key}")(fails_for)
    mcp.prompt(fails, name="asks")
    return mcp


def errors(client: Client) -> dict[str, str]:
    """Return the text of the error of each component, of the server itself and of the mounted one, if there is one."""
    calls: list[tuple[Callable[[str], Any], str]] = []
    for prefix in ("", "inner_") if "inner_told" in client.tools() else ("",):
        at = prefix.replace("_", "/")
        calls += [(client.call, f"{prefix}{tool}") for tool in ("plain", "with_context", "versioned")]
        calls += [(client.read, f"data://{at}{path}") for path in ("fails", "fails/1")]
        calls += [(client.prompt, f"{prefix}asks")]
    found = {}
    for call, name in calls:
        with pytest.raises(CallFailed) as caught:
            call(name)
        found[name] = str(caught.value)
    with pytest.raises(CallFailed, match="for everyone"):  # as in FastMCP, whatever the choice
        client.call("told")
    return found


@pytest.mark.parametrize(
    ("option", "setting", "debug", "shown"),
    [
        (None, None, False, False),
        (False, None, False, True),
        (True, None, False, False),
        (None, False, False, True),
        (None, True, False, False),
        (False, True, False, True),
        (True, False, False, False),
        (None, None, True, True),
    ],
)
def test_the_first_choice_decides(
    monkeypatch: pytest.MonkeyPatch, option: bool | None, setting: bool | None, debug: bool, shown: bool
) -> None:
    """The author's `mask_error_details`, FastMCP's setting and our default decide, in this order, on each path."""
    settings = fastmcp.settings.model_copy()
    if setting is not None:
        settings.mask_error_details = setting
    monkeypatch.setattr(fastmcp, "settings", settings)
    with served(failing("server", mask_error_details=option), debug_errors=debug) as client:
        found = errors(client)
        assert {name: REASON in text for name, text in found.items()} == dict.fromkeys(found, shown)
        details = f": {REASON}" if shown else ""
        assert found["plain"] == f"Error calling tool 'plain'{details}"
        assert found["asks"].endswith(f"Error rendering prompt 'asks'{details}")


@pytest.mark.parametrize(
    ("outer", "inner", "shown"),
    [(False, None, {"", "inner"}), (False, True, {""}), (None, False, {"inner"}), (True, False, {"inner"})],
)
def test_a_mounted_server_has_a_choice_of_its_own(outer: bool | None, inner: bool | None, shown: set[str]) -> None:
    """The author of a mounted server decides about its errors. Without a choice, that of the outer server applies."""
    mcp = failing("outer", mask_error_details=outer)
    mcp.mount(failing("inner", mask_error_details=inner), namespace="inner")
    with served(mcp) as client:
        found = errors(client)
    assert len(found) == 12
    said = {name: REASON in text for name, text in found.items()}
    assert said == {name: ("inner" if "inner" in name else "") in shown for name in found}


def test_a_missing_key_is_a_key_error() -> None:
    """The text of a `KeyError` is only the key, which no reader understands."""
    mcp = FastMCP("keys", mask_error_details=False)

    def environment() -> str:
        return dict[str, str]()["MY_API_KEY"]

    mcp.tool(environment, name="plain")
    mcp.tool(environment, name="versioned", version="1")
    mcp.tool(environment, name="versioned", version="2")
    with served(mcp) as client:
        for name in ("plain", "versioned"):
            with pytest.raises(CallFailed, match=f"^Error calling tool '{name}': KeyError: 'MY_API_KEY'$"):
                client.call(name)


def test_an_authors_own_text_about_a_missing_key_stays() -> None:
    """An author may turn a `KeyError` into an error for clients."""
    mcp = FastMCP("keys", mask_error_details=False)

    @mcp.tool
    def item(name: str) -> str:
        try:
            return dict[str, str]()[name]
        except KeyError as error:
            raise ToolError(f"No such item: {error}") from error

    with served(mcp) as client, pytest.raises(CallFailed, match=r"^No such item: 'tea'$"):
        client.call("item", name="tea")


AUTHOR = f"""
from fastmcp import FastMCP

mcp = FastMCP("author", mask_error_details=False)

@mcp.tool
def plain() -> str:
    raise ValueError({REASON!r})
"""


@pytest.mark.usefixtures("_unnoted")
def test_the_command_notes_a_choice_at_import(tmp_path: Path) -> None:
    """An author may write `FastMCP(mask_error_details=False)` at the top of a file that the command serves."""
    file = tmp_path / "server.py"
    file.write_text(AUTHOR)
    made = app_from(f"{file}:mcp")
    with replica(lambda: made) as client, pytest.raises(CallFailed, match=REASON):
        client.call("plain")


@pytest.mark.usefixtures("_unnoted")
def test_an_app_factory_notes_a_choice() -> None:
    """`@app_factory` knows the choice of a server that its function makes. Any ASGI server can call the factory."""

    @app_factory
    def create() -> App:
        return create_app(failing("server", mask_error_details=False), Settings(auto_discover=False))

    made = create()
    with replica(lambda: made) as client:
        assert all(REASON in text for text in errors(client).values())


@pytest.mark.usefixtures("_unnoted")
@pytest.mark.parametrize(
    ("option", "setting", "shown"),
    [(None, None, False), (False, None, False), (True, None, False), (True, False, False), (False, False, True)],
)
def test_a_server_that_was_made_before_the_first_call(
    monkeypatch: pytest.MonkeyPatch, option: bool | None, setting: bool | None, shown: bool
) -> None:
    """`create_app` gets a server whose choice nobody has noted: it hides the texts unless FastMCP's setting decides."""
    settings = fastmcp.settings.model_copy()
    if setting is not None:
        settings.mask_error_details = setting
    monkeypatch.setattr(fastmcp, "settings", settings)
    with served(failing("server", mask_error_details=option)) as client:
        found = errors(client)
    assert {name: REASON in text for name, text in found.items()} == dict.fromkeys(found, shown)
