"""The command line of the sample server: `python -m tests.sample`."""

import sys

from anyreplica import main

if __name__ == "__main__":
    sys.exit(main(app="tests.sample.server:create_app"))
