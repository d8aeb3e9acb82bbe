"""`python -m tests.sample`: the sample server's command line."""

import sys

from mcp_swarm import main

if __name__ == "__main__":
    sys.exit(main(app="tests.sample.server:create_app"))
