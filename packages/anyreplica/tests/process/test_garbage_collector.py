"""Test that the process returns unused memory to the system."""

import sys

import pytest

from conftest import run

pytestmark = pytest.mark.servers


_GAPS = """
import asyncio, ctypes
from anyreplica.process import replica as collector

def rss():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 1e6

libc = ctypes.CDLL("libc.so.6")
libc.malloc.restype = ctypes.c_void_p
libc.memset.argtypes = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
libc.free.argtypes = (ctypes.c_void_p,)
blocks = [libc.malloc(100_000) for _ in range(500)]
for block in blocks:
    libc.memset(block, 1, 100_000)
before = rss()
for number, block in enumerate(blocks):
    if number % 10 != 9:  # the others keep glibc from returning anything by itself
        libc.free(block)
kept = rss()

async def go():
    collector.TRIM_SECONDS = 0.01
    async with collector.trimming():
        while rss() > kept - 40:
            await asyncio.sleep(0.01)

asyncio.run(asyncio.wait_for(go(), 10))
print("kept" if before - kept < 5 else "returned")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the test needs the memory allocator of glibc")
def test_gaps_go_back_to_the_system() -> None:
    """The process returns 45 MB of free memory between used blocks to the system. glibc alone would keep it."""
    done = run(sys.executable, "-c", _GAPS)
    assert (done.returncode, done.stdout) == (0, "kept\n"), done.stderr
