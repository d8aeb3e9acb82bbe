"""Memory in huge pages: what is full is moved into them, what is hardly used isn't filled."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import mmap
from pathlib import Path
from server.huge_pages import use_huge_pages

def kilobytes(what):
    rollup = Path("/proc/self/smaps_rollup").read_text()
    return next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith(what))

MIB = 1024 * 1024
full, sparse = (mmap.mmap(-1, 32 * MIB, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) for _ in range(2))
sparse.madvise(mmap.MADV_DONTDUMP)  # else the kernel takes both for one area
for place in range(0, 32 * MIB, 4096):
    full[place] = 1
for place in range(0, 32 * MIB, 2 * MIB):
    sparse[place] = 1
before = kilobytes("Rss")
use_huge_pages()
print(kilobytes("AnonHugePages") // 1024, (kilobytes("Rss") - before) // 1024, full[8 * MIB], sparse[16 * MIB])
"""


def supported() -> bool:
    """Whether this kernel can move memory into huge pages."""
    version = tuple(int(part) for part in platform.release().split(".")[:2])
    return version >= (6, 1) and Path("/sys/kernel/mm/transparent_hugepage").is_dir()


@pytest.mark.skipif(not supported(), reason="needs Linux 6.1 with transparent huge pages")
def test_what_is_full_is_moved() -> None:
    """And what it held is there; an area with a page in use here and there isn't filled."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    huge, grown, *held = map(int, done.stdout.split())
    assert huge >= 24
    assert grown < 8
    assert held == [1, 1]


def test_it_has_no_effect_where_there_is_no_proc() -> None:
    """A server must start there, too."""
    program = (
        "from pathlib import Path\nfrom server import huge_pages\n"
        "Path.read_bytes = lambda _: (_ for _ in ()).throw(FileNotFoundError())\nhuge_pages.use_huge_pages()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == ""
