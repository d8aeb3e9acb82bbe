"""The extras of anyreplica: packages that only one feature needs."""

from importlib.util import find_spec

from anyreplica.settings.errors import StartupError

MODULES = {"jobs": "docket", "local": "fakeredis", "signatures": "http_message_signatures"}
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
    if find_spec(MODULES[extra]) is None:
        raise StartupError(
            f"{what}: needs packages that are not installed; "
            f"install anyreplica with its extra {extra} (anyreplica[{extra}]){otherwise}"
        )
