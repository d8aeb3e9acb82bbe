"""The command `anyreplica init`, which writes the files that deploy an existing server to a Docker Swarm."""

import argparse
import base64
import hashlib
import re
import sys
from collections.abc import Sequence
from importlib.metadata import distribution
from importlib.resources import files
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from jinja2 import Environment, StrictUndefined

import anyreplica
from anyreplica.cli.init.project import LONGEST_STACK_NAME, Project, find_project, name_of, python_image
from anyreplica.settings.errors import StartupError

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")

_WHEEL = "anyreplica-wheel"
"""The folder of the wheel. A folder whose name can be that of a module would look like a package to setuptools, and Git
often ignores `wheels`."""

_NEXT = """
Next, in {where}:

  docker build -t {name}:1 .
  docker swarm init   # once, if this machine is not yet in a Swarm
  openssl rand -hex 32 | docker secret create request_state_keys -   # once in each Swarm
  docker stack deploy --detach=false -c stack.yml {name}

Then three replicas answer at http://localhost:{port}/mcp. Anybody who can reach this
port can call the server; stack.yml says how to require a key. After a change,
build the image with a new tag and deploy it:

  docker build -t {name}:2 .
  IMAGE={name}:2 docker stack deploy --detach=false -c stack.yml {name}
"""

_METADATA = ("METADATA", "WHEEL", "entry_points.txt")
"""The files about the distribution that a wheel needs. The rest of what an installer has written belongs to this
installation."""

_TIME = (1980, 1, 1, 0, 0, 0)
"""The time of each file in the wheel. So the same code gives the same bytes, and `docker build` can use its cache."""


def main(arguments: Sequence[str]) -> int:
    """Write the files and return the exit code."""
    given = _parser().parse_args(arguments)
    folder = Path(given.folder)
    name = given.name or name_of(folder)
    try:
        if not folder.is_dir():
            raise StartupError(f"{folder}: there is no such folder")
        project = find_project(folder, given.server)
        written = _write(folder, name, given.port, project, overwrites=given.force)
    except (StartupError, OSError, UnicodeDecodeError) as error:
        print(error, file=sys.stderr)
        return 1
    print("\n".join(written))
    where = "this folder" if folder.resolve() == Path.cwd() else str(folder)
    print(_NEXT.format(where=where, name=name, port=given.port), end="")
    return 0


def _write(folder: Path, name: str, port: int, project: Project, *, overwrites: bool) -> list[str]:
    """Write the files. Return a line about each of them."""
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True)  # noqa: S701
    texts = files("anyreplica.cli.init")
    values = {"name": name, "port": port, "image": python_image(), "project": project}
    made = {
        "Dockerfile": environment.from_string((texts / "Dockerfile.template").read_text()).render(values),
        ".dockerignore": (texts / "dockerignore").read_text(),
        "stack.yml": environment.from_string((texts / "stack.yml.template").read_text()).render(values),
    }
    lines = []
    for file, text in made.items():
        path = folder / file
        if path.exists() and path.read_text() == text:
            lines.append(f"  unchanged  {file}")
        elif path.exists() and not overwrites:
            lines.append(f"  kept       {file} (it is different; --force replaces it)")
        else:
            path.write_text(text)
            lines.append(f"  written    {file}")
    wheel = _write_wheel(folder / _WHEEL)
    lines.append(f"  written    {_WHEEL}/{wheel.name}")
    return lines


def _write_wheel(folder: Path) -> Path:
    """Write the wheel of the installed package into a folder, and remove older wheels of it there.

    `docker build` installs it, so it needs neither an index nor a clone.
    pip builds a wheel from a source only. If anyreplica was installed from a wheel or a URL, its source is not here.
    The format is that of the Python Packaging User Guide, "Binary distribution format".

    Returns:
        The path of the wheel.
    """
    found = distribution("anyreplica")
    package = Path(anyreplica.__file__).parent
    about = f"anyreplica-{found.version}.dist-info"
    content = {
        f"anyreplica/{file.relative_to(package).as_posix()}": file.read_bytes()
        for file in sorted(package.rglob("*"))
        if file.is_file() and "__pycache__" not in file.parts
    }
    content |= {f"{about}/{name}": text.encode() for name in _METADATA if (text := found.read_text(name)) is not None}
    record = f"{about}/RECORD"
    content[record] = "".join([*(_record_line(name, data) for name, data in content.items()), f"{record},,\n"]).encode()
    folder.mkdir(exist_ok=True)
    for old in folder.glob("anyreplica-*.whl"):
        old.unlink()
    wheel = folder / f"anyreplica-{found.version}-py3-none-any.whl"
    with ZipFile(wheel, "w", ZIP_DEFLATED) as file:
        for name, data in content.items():
            file.writestr(ZipInfo(name, _TIME), data, ZIP_DEFLATED)
    return wheel


def _record_line(name: str, data: bytes) -> str:
    """Return the line of a file in RECORD."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


def _name(text: str) -> str:
    if not _NAME.fullmatch(text) or len(text) > LONGEST_STACK_NAME:
        raise argparse.ArgumentTypeError(
            f"{text!r}: write 1 to {LONGEST_STACK_NAME} lower-case letters, digits or hyphens, with a letter or a "
            "digit at both ends"
        )
    return text


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r}: the port must be a number from 1 to 65535")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="anyreplica init",
        description="""\
Write the files that deploy an existing server to a Docker Swarm: a Dockerfile,
a stack file, a .dockerignore, and a wheel (an installable copy) of the installed
anyreplica. The packages of the server come from its requirements.txt or
pyproject.toml. Files that exist stay as they are, except for the wheel.""",
        epilog="""\
examples:
  anyreplica init
  anyreplica init shop.py:mcp --name shop --port 8200
  anyreplica init --force   # discards your changes in these files

exit codes:
  0  success
  1  the folder has no server or no list of packages, or a file cannot be written
  2  wrong arguments
""",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "server",
        nargs="?",
        metavar="SERVER",
        help="the server, as for anyreplica run (default: fastmcp.json, server.py, main.py or app.py)",
    )
    parser.add_argument("--folder", default=".", metavar="FOLDER", help="the folder of the server (default: this one)")
    parser.add_argument("--name", type=_name, help="name of the image and the stack (default: the folder's name)")
    parser.add_argument("--port", type=_port, default=8150, help="port that the Swarm publishes (default: 8150)")
    parser.add_argument("--force", action="store_true", help="replace files that exist")
    return parser
