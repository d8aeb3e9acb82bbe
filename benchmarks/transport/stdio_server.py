"""The echo over stdin and stdout, as FastMCP serves it.

python -m benchmarks.transport.stdio_server CORE
"""

import os
import sys

os.sched_setaffinity(0, {int(sys.argv[1])})  # before the imports, which are most of the start

from benchmarks.transport.echo import server  # noqa: E402

server().run("stdio", show_banner=False)
