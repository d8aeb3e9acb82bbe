"""`python -m anyreplica` runs the command `anyreplica`."""

import sys

from anyreplica.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
