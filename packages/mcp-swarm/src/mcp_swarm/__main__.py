"""`python -m mcp_swarm` runs the command `mcp-swarm`."""

import sys

from mcp_swarm.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
