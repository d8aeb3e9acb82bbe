"""The import of an author's module or file. An error stops the start with file, line and reason."""

import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from anyreplica.settings.errors import StartupError

MARK = "__anyreplica__"
"""Name of the function attribute with the mark: the kind of the function and its options."""

FILE_MODULE = "server_module"
"""The name under which a file is imported. FastMCP's command line uses the same name."""


class DiscoveryError(StartupError):
    """A part of the author's code cannot be served. `str()` of the error is `file:line: reason`."""


def import_module(name: str, *, blame: str) -> ModuleType:
    """Import a module.

    Args:
        blame: what to name in the error if the module itself does not run, for example because it does not exist.

    Raises:
        DiscoveryError: the module cannot be imported.
    """
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise _failed(error, blame) from error


def import_file(path: Path) -> ModuleType:
    """Import a Python file as `server_module`. Its folder comes first in the search path of later imports.

    If the folder is a package and the file has its name, as in `server/server.py`, the parent folder comes first, and
    this folder second. Otherwise the file would hide the package.

    Raises:
        DiscoveryError: the file does not exist or cannot be imported.
    """
    path = path.resolve()
    if not path.is_file():
        raise DiscoveryError(f"{short(path)}: no such file")
    folder = path.parent
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    if path.stem == folder.name and (folder / "__init__.py").is_file() and sys.path[0] != str(folder.parent):
        sys.path.insert(0, str(folder.parent))
    spec = importlib.util.spec_from_file_location(FILE_MODULE, path)
    assert spec is not None  # noqa: S101  # it is None only for files that are not Python
    assert spec.loader is not None  # noqa: S101
    module = sys.modules[FILE_MODULE] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise _failed(error, short(path)) from error
    return module


def short(path: str | Path) -> str:
    """Return a path relative to the working directory, or unchanged if the path is elsewhere."""
    absolute = Path(path).resolve()
    here = Path.cwd()
    return str(absolute.relative_to(here)) if absolute.is_relative_to(here) else str(path)


def _failed(error: BaseException, blame: str) -> DiscoveryError:
    if isinstance(error, SyntaxError):
        return DiscoveryError(f"{short(error.filename or blame)}:{error.lineno}: {error.msg}")
    where = _origin(error, blame)
    remedy = _remedy(error) if where != blame else ""
    return DiscoveryError(f"{where}: {type(error).__name__}: {error}{remedy}")


def _remedy(error: BaseException) -> str:
    """Return how to install a package that a file imports and that is missing, in a project of the template."""
    makefile = Path("Makefile")
    name = (error.name or "") if isinstance(error, ModuleNotFoundError) else ""
    if not name or "." in name or not makefile.is_file() or "\nadd:" not in makefile.read_text():
        return ""
    return f"; if it is a package, run make add PACKAGE={name}"


def _origin(error: BaseException, blame: str) -> str:
    """Return file and line of the first frame of the imported module; return `blame` if the module did not run."""
    machinery = ("<frozen ", __file__, importlib.__file__ or "")
    for frame in traceback.extract_tb(error.__traceback__):
        if not frame.filename.startswith(machinery):
            return f"{short(frame.filename)}:{frame.lineno}"
    return blame
