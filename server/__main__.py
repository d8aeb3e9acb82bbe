"""The command line of this server: `python -m server` runs `mcp-swarm` with this server's app; see `--help`."""

import sys

from mcp_swarm import main

if __name__ == "__main__":
    sys.exit(main(app="server.server:create_app"))
