#!/usr/bin/env python3
"""Load test for a running deployment; it checks that every request succeeds and that every replica takes part.

python test_swarm_load.py --requests 100 --concurrent 20 --expect-replicas 3
"""

import os
import sys

from anyreplica.load.main import main

from test_mcp_client import project_port

if __name__ == "__main__":
    os.environ.setdefault("PORT", project_port())
    sys.exit(main())
