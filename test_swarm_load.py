#!/usr/bin/env python3
"""Load test for a running deployment; it checks that every request succeeds and that every replica takes part.

python test_swarm_load.py --requests 100 --concurrent 20 --expect-replicas 3
"""

import sys

from anyreplica.load.main import main

if __name__ == "__main__":
    sys.exit(main())
