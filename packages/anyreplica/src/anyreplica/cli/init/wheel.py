"""The wheel of the installed anyreplica: `docker build` installs it, so it needs neither an index nor a clone."""

import base64
import hashlib
from importlib.metadata import distribution
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import anyreplica

_METADATA = ("METADATA", "WHEEL", "entry_points.txt")
"""The files about the distribution that a wheel needs. The rest of what an installer has written belongs to this
installation."""

_TIME = (1980, 1, 1, 0, 0, 0)
"""The time of each file in the wheel. So the same code gives the same bytes, and `docker build` can use its cache."""


def write_wheel(folder: Path) -> Path:
    """Write the wheel of the installed package into a folder, and remove older wheels of it there.

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
    content[record] = "".join([*(_line(name, data) for name, data in content.items()), f"{record},,\n"]).encode()
    folder.mkdir(exist_ok=True)
    for old in folder.glob("anyreplica-*.whl"):
        old.unlink()
    wheel = folder / f"anyreplica-{found.version}-py3-none-any.whl"
    with ZipFile(wheel, "w", ZIP_DEFLATED) as file:
        for name, data in content.items():
            file.writestr(ZipInfo(name, _TIME), data, ZIP_DEFLATED)
    return wheel


def _line(name: str, data: bytes) -> str:
    """Return the line of a file in RECORD."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"
