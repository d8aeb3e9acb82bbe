"""The study of 1, 2, 3 … replicas."""

from pathlib import Path

import pytest

from benchmarks.scaling.quota import Group, NoQuota, groups, places
from tests.benchmarks.measuring import measured, medians

pytestmark = pytest.mark.alone


@pytest.fixture
def _quota() -> None:
    """Skip where this process may not limit the CPU time of others."""
    try:
        with groups(1):
            pass
    except NoQuota as error:
        pytest.skip(str(error))


def _left() -> list[str]:
    found = places(Path("/proc/self/cgroup").read_text(), Path("/sys/fs/cgroup"))
    return [each.name for place in found for each in place.glob("anyreplica-benchmark-*")]


@pytest.mark.usefixtures("_quota")
def test_it_runs() -> None:
    """For each number of replicas there are figures within the replicas' share of CPU time; no cgroup is left.

    A replica with as many processes has such figures, too, and needs less memory for each process.
    """
    (table,) = measured("scaling", "--replicas", "2", "--seconds", "0.3").tables
    for size, row in ((1, "1"), (2, "2"), (2, "workers-2")):
        figures = medians(table, row)
        assert figures["rate"] / size * figures["cpu"] / 1e6 < 0.55  # The share is 0.4 of a core in the long run.
        assert 0 < figures["cpu"] < 10_000
        assert 0 < figures["p50"] <= figures["p99"] < 5_000
        assert 20 < figures["memory"] < 500
    assert medians(table, "1")["efficiency"] == 100
    rates = [medians(table, size)["rate"] for size in ("1", "2")]
    assert medians(table, "2")["efficiency"] == pytest.approx(100 * rates[1] / rates[0] / 2, rel=1e-3)
    assert medians(table, "workers-2")["memory"] < medians(table, "2")["memory"]
    assert not _left()


@pytest.mark.parametrize(
    ("file", "some", "none"), [("cpu.max", "2000 10000", "max 10000"), ("cpu.cfs_quota_us", "2000", "-1")]
)
def test_what_is_written(file: str, some: str, none: str, tmp_path: Path) -> None:
    """A quota has the form of the cgroup version."""
    (tmp_path / file).touch()
    Group(tmp_path).limit(0.2)
    assert (tmp_path / file).read_text() == some
    Group(tmp_path).limit(None)
    assert (tmp_path / file).read_text() == none


def test_small_shares_and_missing_controllers(tmp_path: Path) -> None:
    """A quota below 1 ms gets a longer period; a group without a cpu controller is refused."""
    with pytest.raises(NoQuota, match="no cgroup has a cpu controller"):
        Group(tmp_path).limit(0.2)
    (tmp_path / "cpu.max").touch()
    Group(tmp_path).limit(0.05)
    assert (tmp_path / "cpu.max").read_text() == "1000 20000"
