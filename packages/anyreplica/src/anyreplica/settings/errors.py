"""The exception that stops the start of a process, and the check that the packages of an extra are installed."""

from importlib.util import find_spec


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


EXTRA_MODULES = {"jobs": "docket", "local": "fakeredis", "signatures": "http_message_signatures"}
"""A module of each extra. `tracing.check` checks the extra `traces`."""


def require_extra(extra: str, what: str, otherwise: str = "") -> None:
    """Check that the packages of an extra are installed. Nothing is imported.

    Args:
        extra: the name of the extra.
        what: the variable or the component that needs it.
        otherwise: other ways out, after a comma.

    Raises:
        StartupError: the packages are not installed.
    """
    if find_spec(EXTRA_MODULES[extra]) is None:
        raise StartupError(
            f"{what}: needs packages that are not installed; "
            f"install anyreplica with its extra {extra} (anyreplica[{extra}]){otherwise}"
        )
