"""What stops a start."""


class StartupError(Exception):
    """The process can't start. `str()` is what the operator reads: a line a problem, each with what to do."""
