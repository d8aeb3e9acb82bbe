"""The exception that stops the start of a process."""


class StartupError(Exception):
    """A reason why the process cannot start. The operator reads its text.

    The text has one line per problem. Each line names what to change. Raise it at import or in `create_app` when a
    setting or a file is invalid.

    Example:

        from pathlib import Path

        from anyreplica import StartupError

        if not Path("prices.csv").is_file():
            raise StartupError("prices.csv: no such file; download it with `make prices`")
    """
