"""`python -m server` is `mcp-swarm` for this server: run, check, worker, load, keys, audit. `--help` describes them."""

import sys

from mcp_swarm import main

if __name__ == "__main__":
    sys.exit(main(app="server.server:create_app"))
