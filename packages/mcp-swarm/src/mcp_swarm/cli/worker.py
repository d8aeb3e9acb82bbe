"""`mcp-swarm worker`: a process that runs jobs."""

import argparse
from collections.abc import Sequence

from mcp_swarm.cli.app_of import app_of
from mcp_swarm.cli.main import app_option
from mcp_swarm.cli.run import serve
from mcp_swarm.process.exit_codes import EXIT_REFUSED
from mcp_swarm.process.start import refusing


def main(arguments: Sequence[str]) -> int:
    """Run a worker until a signal ends it; returns the exit code, or raises StartupError if it can't start."""
    parser = argparse.ArgumentParser(
        prog="mcp-swarm worker",
        description="Run a worker, which does the jobs of JOBS_URL, and no replica. It answers /healthz and /readyz.",
        epilog=f"Exit codes: 0 stopped; 2 wrong arguments; {EXIT_REFUSED} can't start (stderr says why).",
    )
    app_option(parser)
    app = app_of(parser.parse_args(arguments).app)
    with refusing():
        worker = app.worker()
    jobs = ", ".join(sorted(app.components.jobs))
    print(f"A worker for {jobs}; its probes are on port {app.settings.mcp_port}.", flush=True)
    return serve(app.settings, worker)
