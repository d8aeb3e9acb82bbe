"""What stops a start."""


class StartupError(Exception):
    """The process can't start. `str()` is what the operator reads: one line per problem, which names what to change.

    Raise it at import or in `create_app` when a setting or a file can't be used.

    Example:

        from pathlib import Path

        from mcp_swarm import StartupError

        if not Path("prices.csv").is_file():
            raise StartupError("prices.csv: no such file; download it with `make prices`")
    """
