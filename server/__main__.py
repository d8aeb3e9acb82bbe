"""The command line of this server: `python -m server` runs `anyreplica` with this server's app; see `--help`."""

import sys

from anyreplica import main

if __name__ == "__main__":
    sys.exit(main(app="server.server:create_app"))
