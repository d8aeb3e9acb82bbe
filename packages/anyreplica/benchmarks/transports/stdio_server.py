"""The echo over stdin and stdout, served by FastMCP.

python -m benchmarks.transports.stdio_server CORE
"""

import os
import sys

os.sched_setaffinity(0, {int(sys.argv[1])})  # The imports below take most of the start.

from benchmarks.transports.places import fastmcp_server  # noqa: E402

fastmcp_server().run("stdio", show_banner=False)
