"""Discovery: the import of tools, resources, prompts and jobs. An error stops the start with file, line and reason."""

import inspect
import logging
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from fastmcp.decorators import get_fastmcp_meta
from fastmcp.server.auth import AuthProvider
from fastmcp.server.extensions import ServerExtension
from fastmcp.server.middleware import Middleware
from fastmcp.server.providers import Provider
from fastmcp.server.providers.filesystem_discovery import extract_components
from fastmcp.server.transforms import Transform
from fastmcp.utilities.components import FastMCPComponent

from anyreplica.components.containment import AsyncFunction, Function, MakeThreads, contain, plain_function
from anyreplica.components.importing import MARK, DiscoveryError, import_module, short
from anyreplica.components.job import Job, JobMeta, make_job
from anyreplica.components.marks import Check, Lifespan
from anyreplica.components.prepare import Preparation, WrapTool
from anyreplica.settings import CoreSettings

logger = logging.getLogger(__name__)

FOLDERS = ("tools", "resources", "prompts", "jobs")
"""Names of the folders in a component pack that contain components."""


_PARTS_OF_A_SERVER = (AuthProvider, Provider, ServerExtension, Transform)
"""Classes of objects that only the FastMCP server can use. FastMCP itself is a `Provider`."""


@dataclass(frozen=True)
class Found:
    """A component, and the file and line of its function."""

    component: FastMCPComponent
    where: str


class Discovered:
    """Everything that was found in the component packs, in the order of files and names."""

    def __init__(self, settings: CoreSettings, make_threads: MakeThreads, wraps: Sequence[WrapTool] = ()) -> None:
        self.preparation = Preparation(settings, make_threads, wraps)
        self.components: list[Found] = []
        self.middleware: list[Middleware] = []
        self.completion: AsyncFunction | None = None
        self.jobs: dict[str, Job] = {}
        self.checks: list[Check] = []
        self.lifespans: list[Lifespan] = []
        self.completions: dict[str, Function] = {}
        self.parts: list[tuple[str, object]] = []
        """Servers, providers, transforms, extensions and auth providers, each with its place and name."""
        self._places: dict[tuple[str, str], str] = {}

    def add(self, name: str, value: Any, module: ModuleType) -> None:
        """Keep a value of a module if it belongs to a FastMCP server or if a decorator of anyreplica marked it."""
        if isinstance(value, _PARTS_OF_A_SERVER):
            self.parts.append((f"{_where(module, None)}: {name}", value))
        if isinstance(value, Middleware) and all(value is not each for each in self.middleware):
            self.middleware.append(value)
        mark = getattr(value, MARK, None) if callable(value) else None
        if mark is None or _imported(value, module):
            return
        where = _where(module, value)
        match mark:
            case "completion":
                self.completions[f"{where}: {name}"] = value
            case "lifespan" if value not in self.lifespans:
                self.lifespans.append(value)
            case Check() if self._is_new("check", mark.name, where):
                self.checks.append(mark)
            case JobMeta():
                job = _job(name, value, mark, where)
                if self._is_new("job", job.name, where):
                    self.jobs[job.name] = job

    def _is_new(self, kind: str, name: str, where: str) -> bool:
        """Return False if this is a second name of the same function in its module.

        Raises:
            DiscoveryError: another function already has this name.
        """
        first = self._places.get((kind, name))
        if first not in (None, where):
            raise DiscoveryError(f"{where}: {kind} {name!r} is already defined at {first}")
        self._places[kind, name] = where
        return first is None


def discover(settings: CoreSettings, make_threads: MakeThreads, wraps: Sequence[WrapTool] = ()) -> Discovered:
    """Import the packs that `MCP_COMPONENTS` names and collect their public parts.

    The parts are components, jobs, checks, lifespans, instances of FastMCP's `Middleware`, and one `@completion`.

    Args:
        make_threads: makes the threads of one plain `def` function.
        wraps: functions that get a tool and its function, and return the function that runs instead.

    Raises:
        DiscoveryError: a package does not exist, a module cannot be imported, a function cannot be served, two
            components, jobs or checks have the same name, or there are two `@completion` functions.
    """
    found = Discovered(settings, make_threads, wraps)
    components: dict[str, Found] = {}
    for package in dict.fromkeys(settings.mcp_components) if settings.auto_discover else ():
        for module in _modules(package):
            for name, value in _public(module):
                found.add(name, value, module)
            items = list(_components(module, found.preparation))
            _name_forgotten(module, is_empty=not items)
            for item in items:
                first = components.setdefault(item.component.key, item)
                if first is not item:
                    kind, name = item.component.key.rstrip("@").split(":", 1)
                    raise DiscoveryError(f"{item.where}: {kind} {name!r} is already defined at {first.where}")
    found.components = list(components.values())
    found.checks.sort(key=lambda check: check.name)
    if len(found.completions) > 1:
        one, other = list(found.completions)[:2]
        raise DiscoveryError(f"{other}: @completion is already used at {one}; a server has at most one @completion")
    for suggest in found.completions.values():
        threads = make_threads(settings.tool_threads)
        found.completion = contain(suggest, threads=threads, kind="prompt", what="completion")
    return found


def _name_forgotten(module: ModuleType, *, is_empty: bool) -> None:
    """Log what an author probably meant to serve: a function with a private name, or a file without decorators.

    Args:
        is_empty: whether the module has no component of FastMCP.
    """
    shown = {id(value) for _, value in _public(module)}
    for name, value in sorted(vars(module).items()):
        # Other private objects are not touched: a lazy one would load what it stands for.
        is_private = name.startswith("_") and type(value) is FunctionType and id(value) not in shown
        if is_private and not _imported(value, module) and _is_marked(value):
            text = "%s: %s has a decorator, but no client sees it, because its name begins with _"
            logger.warning(text, _where(module, value), name)
    public = [value for _, value in _public(module)]
    if not is_empty or not set(FOLDERS) & set(module.__name__.split(".")[:-1]):
        return
    if any(_is_marked(each) or isinstance(each, (Middleware, *_PARTS_OF_A_SERVER)) for each in public):
        return
    functions = [each for each in public if inspect.isfunction(each) and each.__module__ == module.__name__]
    if functions:
        logger.warning(
            "%s: %s has no decorator, such as @tool, so no client sees it; begin the name of a file of helpers with _",
            _where(module, functions[0]),
            functions[0].__name__,
        )


def _is_marked(value: Any) -> bool:
    return get_fastmcp_meta(value) is not None or (callable(value) and getattr(value, MARK, None) is not None)


def _job(name: str, function: Function, meta: JobMeta, where: str) -> Job:
    try:
        return make_job(function, meta)
    except (ValueError, TypeError, NameError) as error:
        raise DiscoveryError(f"{where}: {name}: {' '.join(str(error).split())}") from error


def _public(module: ModuleType) -> Iterator[tuple[str, Any]]:
    return ((name, value) for name, value in sorted(vars(module).items()) if not name.startswith("_"))


def _modules(package: str) -> Iterator[ModuleType]:
    root = import_module(package, blame=f"MCP_COMPONENTS={package}")
    folders = [Path(folder) for folder in getattr(root, "__path__", ())]
    if not folders:  # the name is a module, not a package
        yield root
        return
    known = [folder / name for folder in folders for name in FOLDERS if (folder / name).is_dir()]
    for start in known or folders:
        for path in sorted(start.rglob("*.py")):
            parts = path.relative_to(start).with_suffix("").parts
            if parts[-1] == "__init__":
                parts = parts[:-1]
            if any(part.startswith(("_", ".")) for part in parts):
                continue
            prefix = (package, start.name) if known else (package,)
            yield import_module(".".join((*prefix, *parts)), blame=short(path))


def _components(module: ModuleType, preparation: Preparation) -> Iterator[Found]:
    seen: set[int] = set()
    for name, value in _public(module):
        meta = get_fastmcp_meta(value)
        if id(value) in seen or not (meta or isinstance(value, FastMCPComponent)):
            continue
        seen.add(id(value))  # a second name for the same function is not a second tool
        function = value if meta else getattr(value, "fn", None)
        if function is not None and _imported(function, module):
            continue  # the function is imported: only the module that defines it may serve it
        where = _where(module, function)
        yield Found(_build(name, value, where, preparation), where)


def _imported(function: Any, module: ModuleType) -> bool:
    """Return whether a function belongs to another module.

    A function counts as this module's own if a factory or decorator of another module made it for this module.
    """
    home = sys.modules.get(getattr(function, "__module__", None) or module.__name__, module)
    return home is not module and getattr(home, getattr(function, "__name__", ""), None) is function


def _build(name: str, value: Any, where: str, preparation: Preparation) -> FastMCPComponent:
    """Make a FastMCP component from a decorated function, or take a ready-made component, and prepare it."""
    holder = ModuleType(name)
    try:
        setattr(holder, name, value)
        (component,) = extract_components(holder)
        return preparation.prepare(component)
    except Exception as error:
        raise DiscoveryError(f"{where}: {name}: {' '.join(str(error).split())}") from error


def _where(module: ModuleType, function: object) -> str:
    code = getattr(inspect.unwrap(plain_function(function)), "__code__", None) if callable(function) else None
    if code is None:
        return short(module.__file__ or module.__name__)
    return f"{short(code.co_filename)}:{code.co_firstlineno}"
