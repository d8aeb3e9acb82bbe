"""The report about a comparison, and its exit code."""

from collections.abc import Collection, Mapping
from typing import Any

from upstream import differences

Results = Mapping[str, Mapping[str, Any]]
"""The results of tests by test id."""


def report(
    ours: Results,
    passing: Collection[str],
    differing: Collection[str],
    known: list[differences.Difference],
    bound: float | None,
) -> int:
    """Print the result of a comparison. Return the exit code.

    Args:
        ours: the results with anyreplica.
        passing: the tests that pass with the control and with anyreplica.
        differing: the tests that pass with the control only.
        known: the differences that have a reason.
        bound: the smallest share of tests that must pass with anyreplica, in percent. None: not all tests ran.
    """
    unexpected = differences.unexpected(differing, known)
    stale = differences.stale(passing, differing, known, whole=bound is not None)
    for test in unexpected:
        print(f"\nDiffers: {test}\n{ours[test].get('text', '')}")
    for test in unexpected:
        print(f"Differs, and differences.toml does not have it: {test}")
    for pattern in stale:
        print(f"In differences.toml, but passes or is gone: {pattern}")
    for each in known:
        print(f"{sum(map(each.has, differing)):4} differ: {each.what}")
    count = len(passing) + len(differing)
    reached = sum(bool(ours[test]["served"]) for test in (*passing, *differing))
    share = 100 * len(passing) / count if count else 0
    print(f"{count} tests pass with the control, {len(passing)} of them with anyreplica ({share:.2f} %).")
    print(f"{reached} of the tests use a server; {len(differing)} differ, {len(unexpected)} of them unexpectedly.")
    too_few = bound is not None and share < bound
    if too_few:
        print(
            f"Too few tests pass: at least {bound:g} % must pass with anyreplica, also if each difference has a reason."
        )
    return 1 if unexpected or stale or too_few else 0
