"""The command `anyreplica worker`, which runs a worker: a process that runs jobs."""

import argparse
from collections.abc import Sequence

from anyreplica.cli.main import server_argument, split
from anyreplica.cli.run import serve
from anyreplica.cli.source import app_of
from anyreplica.features.jobs.server_tasks import task_tools
from anyreplica.process.start import EXIT_REFUSED, refusing


def main(arguments: Sequence[str], *, default: str) -> int:
    """Run a worker until a signal stops it and return the exit code.

    Raises:
        StartupError: The worker can't start; the message names the reason.
    """
    parser = argparse.ArgumentParser(
        prog="anyreplica worker",
        description="""\
Run a worker. A worker runs the jobs from the queue at JOBS_URL and serves no
MCP requests. It answers only the health probes (/healthz, /readyz).""",
        epilog=f"""\
example:
  JOBS_URL=redis://localhost:6379/0 anyreplica worker

exit codes:
  0  stopped by a signal
  2  wrong arguments
  {EXIT_REFUSED}  the worker can't start; stderr names the reason
""",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    server_argument(parser, default)
    given, own = split(arguments)
    app = app_of(parser.parse_args(given).server, own)
    with refusing():
        worker = app.worker()
    jobs = ", ".join([*sorted(app.components.jobs), *task_tools(app.mcp)])
    print(f"Worker for the jobs {jobs}; its probes are on port {app.settings.mcp_port}.", flush=True)
    return serve(app.settings, worker)
