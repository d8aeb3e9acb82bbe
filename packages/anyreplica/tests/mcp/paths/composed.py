"""Servers that Hypothesis generates: mounted in each other, with middleware, transforms, versions and rules."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from fastmcp import FastMCP
from fastmcp.server import transforms
from fastmcp.server.lifespan import lifespan
from fastmcp.server.transforms.search import RegexSearchTransform
from fastmcp.tools.tool_transform import ArgTransformConfig, ToolTransformConfig
from fastmcp.utilities.versions import VersionSpec
from hypothesis import strategies as st

from tests.mcp.paths import composed_middleware, composed_tools

NAMES = ("plain", "one", "two")
"""Names of generated tools. Few names give many duplicates."""
TAGS = ("red", "blue")
VERSIONS = ("1.0", "2.0")
NAMESPACES = (None, "a", "b", "a_b")


@dataclass(frozen=True)
class OneTool:
    """A tool of a generated server."""

    name: str
    kind: str
    version: str | None
    tags: frozenset[str]


@dataclass(frozen=True)
class Rule:
    """A rule of visibility. None matches all."""

    enabled: bool
    tags: frozenset[str] | None
    names: frozenset[str] | None
    version: str | None


@dataclass(frozen=True)
class OneServer:
    """A generated server. `mounts` has the servers that are mounted in it, each with its namespace and new names."""

    name: str
    tools: tuple[OneTool, ...]
    middleware: tuple[str, ...]
    transforms: tuple[str, ...]
    rules: tuple[Rule, ...]
    has_lifespan: bool
    mounts: tuple[tuple["OneServer", str | None, bool], ...]

    def make(self) -> FastMCP:
        """Make the FastMCP server. Two calls make two servers that behave in the same way."""
        kinds = composed_middleware.KINDS
        middleware = [kinds[kind](f"{kind} {number} of {self.name}") for number, kind in enumerate(self.middleware)]
        mcp: FastMCP[Any] = FastMCP(
            self.name, middleware=middleware, lifespan=_opening(self.name) if self.has_lifespan else None
        )
        for tool in self.tools:
            mcp.tool(composed_tools.KINDS[tool.kind], name=tool.name, version=tool.version, tags=set(tool.tags))
        for server, namespace, is_renamed in self.mounts:
            mcp.mount(server.make(), namespace=namespace, tool_names={"one": "uno"} if is_renamed else None)
        for transform in self.transforms:
            mcp.add_transform(TRANSFORMS[transform](mcp))
        for rule in self.rules:
            change = mcp.enable if rule.enabled else mcp.disable
            change(
                tags=None if rule.tags is None else set(rule.tags),
                names=None if rule.names is None else set(rule.names),
                version=None if rule.version is None else VersionSpec(eq=rule.version),
                components={"tool"},
            )
        return mcp


def _opening(name: str) -> Any:
    @lifespan
    async def opened(_: FastMCP[Any]) -> AsyncIterator[dict[str, Any]]:
        yield {"opened": name}

    return opened


_Z = ToolTransformConfig(name="zwei", arguments={"x": ArgTransformConfig(name="z")})
TRANSFORMS: dict[str, Callable[[FastMCP], transforms.Transform]] = {
    "namespace": lambda _: transforms.Namespace("ns"),
    "old": lambda _: transforms.VersionFilter(version_lt="2.0"),
    "new": lambda _: transforms.VersionFilter(version_gte="2.0", include_unversioned=False),
    "rename": lambda _: transforms.ToolTransform({"two": ToolTransformConfig(name="deux", description="changed")}),
    "argument": lambda _: transforms.ToolTransform({"two": _Z}),
    "search": lambda _: RegexSearchTransform(always_visible=["plain"]),
    "resources": transforms.ResourcesAsTools,
    "prompts": transforms.PromptsAsTools,
}
"""Transforms by kind. Each function gets the server that the transform is for."""

_SOME_TAGS = st.frozensets(st.sampled_from(TAGS), max_size=2)
_KINDS = {
    "plain": sorted(composed_tools.KINDS.keys() - {"calls_another"}),
    "one": sorted(composed_tools.KINDS),
    "two": composed_tools.WITH_X,
}
"""Kinds of tools by name.

The tool `plain` must not call itself without end. A transform renames the argument `x` of the tool `two`.
"""
_TOOLS = st.sampled_from(NAMES).flatmap(
    lambda name: st.builds(
        OneTool,
        name=st.just(name),
        kind=st.sampled_from(_KINDS[name]),
        version=st.sampled_from([None, None, *VERSIONS]),
        tags=_SOME_TAGS,
    )
)
_RULES = st.builds(
    Rule,
    enabled=st.booleans(),
    tags=st.none() | st.frozensets(st.sampled_from(TAGS), min_size=1, max_size=2),
    names=st.none() | st.frozensets(st.sampled_from([*NAMES, "uno", "deux", "a_one"]), min_size=1, max_size=2),
    version=st.sampled_from([None, None, *VERSIONS]),
).filter(lambda rule: rule.tags is not None or rule.names is not None or rule.version is not None)
_MIDDLEWARE = st.lists(st.sampled_from(sorted(composed_middleware.KINDS)), min_size=1, max_size=2).map(tuple)


def _sometimes(some: st.SearchStrategy[tuple[str, ...]]) -> st.SearchStrategy[tuple[str, ...]]:
    """Return something in one of three cases, and otherwise nothing."""
    return st.integers(1, 3).flatmap(lambda number: some if number == 1 else st.just(()))


def _kept(tools: list[OneTool]) -> tuple[OneTool, ...]:
    """Leave out what FastMCP refuses: a name with and without a version, and the same version twice."""
    kept: dict[tuple[str, str | None], OneTool] = {}
    for tool in tools:
        others = [version for name, version in kept if name == tool.name]
        if all((version is None) is (tool.version is None) for version in others):
            kept.setdefault((tool.name, tool.version), tool)
    return tuple(kept.values())


@st.composite
def servers(draw: st.DrawFn, name: str = "root", depth: int = 3) -> OneServer:
    """Generate a server, in which up to two servers are mounted at each of three depths."""
    mounts = []
    for number in range(draw(st.integers(0, 2)) if depth else 0):
        mounted = draw(servers(f"{name}{number}", depth - 1))
        mounts.append((mounted, draw(st.sampled_from(NAMESPACES)), draw(st.integers(1, 4)) == 1))
    return OneServer(
        name=name,
        tools=_kept(draw(st.lists(_TOOLS, max_size=3))),
        middleware=draw(_sometimes(_MIDDLEWARE)),
        transforms=draw(_sometimes(st.sampled_from(list(TRANSFORMS)).map(lambda kind: (kind,)))),
        rules=tuple(draw(st.lists(_RULES, max_size=2))),
        has_lifespan=draw(st.booleans()),
        mounts=tuple(mounts),
    )
