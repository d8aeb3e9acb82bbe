"""The benchmark of 1, 2, 3 … replicas, as a person runs it."""

import signal
import sys
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.scale.agents import MEASURED, NAMES, Basis, assumption, model
from benchmarks.scale.course import Course, Ladder, cents
from benchmarks.scale.findings import findings
from benchmarks.scale.fleet import Measured
from benchmarks.scale.quota import Group, NoQuota, groups, places
from benchmarks.scale.room import FULL, Room, shares, whole_cores
from benchmarks.scaling import SCRIPT
from benchmarks.scenarios import ECHO
from benchmarks.study.command import main
from benchmarks.study.model import evaluate
from benchmarks.study.study import Findings, Study, read
from conftest import run
from tests.benchmarks.stopping import leaves_nothing

pytestmark = pytest.mark.alone

script = partial(run, sys.executable, "-m", "benchmarks.scaling")
_BASIS = Basis(core_calls=10_000, efficiency=100, replica_mb=100)


def _quota() -> bool:
    """Whether this process may bound what others take of a core."""
    try:
        with groups(1):
            return True
    except NoQuota:
        return False


def _left() -> list[str]:
    found = places(Path("/proc/self/mountinfo").read_text(), Path("/proc/self/cgroup").read_text())
    return [each.name for place in found for each in place.glob("mcp-swarm-benchmark-*")]


def _check(study: Study, sizes: list[int]) -> None:
    families, core = study.findings.tables[:2], study.findings.tables[2]
    for table in families:
        single = table.median(table.rows[0].name, "rate")
        assert single
        for size, row in zip(sizes, table.rows, strict=True):
            figures = {column.name: row.figures[column.name].median for column in table.columns}
            assert figures["rate"] / size / single * 100 == pytest.approx(figures["efficiency"], rel=1e-3)
            assert 10 < figures["cpu"] < 10_000
            assert figures["rate"] / size * figures["cpu"] / 1e6 < 0.4  # of a core; 0.3 is allowed, in the long run
            assert 0 < figures["p50"] <= figures["p99"] < 5_000
            assert 20 < figures["memory"] < 500
            assert 0 < figures["cost"] < 100
    for row in core.rows:
        assert row.figures["time"].median == pytest.approx(1e6 / row.figures["cpu"].median, rel=1e-3)


def test_the_figures_as_json(tmp_path: Path) -> None:
    """Rows for each number of replicas and each protocol family, a model with its assumptions, no group left behind."""
    page = tmp_path / "page.html"
    options = ["--replicas", "1,2", "--share", "30", "--seconds", "0.2", "--assume", "agents=1000"]
    done = script("--quick", "--rounds", "1", *options, "--json", "-", "--html", str(page))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    study = read(done.stdout)
    assert not study.failures
    assert [len(table.rows) for table in study.findings.tables] == [2, 2, 2]
    if _quota():
        _check(study, [1, 2])
        assert study.findings.model
        values = {each.name: each.value for each in study.findings.model.assumptions}
        assert values.keys() == set(NAMES)
        assert values["agents"] == 1000
        assert 'id="agents"' in page.read_text()
    else:
        assert len(study.skipped) == 2
    assert not _left()


@pytest.mark.parametrize(("number", "replicas"), [(signal.SIGTERM, "1,2"), (signal.SIGINT, "1")])
def test_a_stopped_run_leaves_nothing(number: signal.Signals, replicas: str) -> None:
    """No replica, no caller (the second process where there is one replica), and no group."""
    leaves_nothing(number, "benchmarks.scaling", "--quick", "--share", "30", "--replicas", replicas)
    assert not _left()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--replicas", "2,3"], "'2,3' is no list like 1,2,3"),
        (["--replicas", "1,1"], "'1,1' is no list like 1,2,3"),
        (["--replicas", "1,"], "'1,' is no list like 1,2,3"),
        (["--replicas", "1,1000"], "'1,1000' is no list like 1,2,3"),
        (["--share", "0"], "'0' is no percentage from 1 to 85"),
        (["--assume", "agent=5"], "'agent' is none of agents, agent_calls, "),
        (["--assume", "agents"], "'' is no number above 0"),
        (["--assume", "reserve=100"], "'100' is no number from 0 to 99"),
        (["--assume", "tool_ms=nan"], "'nan' is no number from 0"),
    ],
)
def test_wrong_arguments(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, and what would make sense."""
    with pytest.raises(SystemExit) as caught:
        main(SCRIPT, arguments)
    assert caught.value.code == 2
    assert says in capsys.readouterr().err


def test_the_published_estimate() -> None:
    """Ten million agents with a call a second each, and nothing left free, as it was published."""
    values = evaluate(model(_BASIS, {}))
    assert (values["calls"], values["published"]) == (10_000_000, 261_097)
    assert values["cores"] == pytest.approx(1428.57, rel=1e-4)
    assert (values["replicas"], values["machines"]) == (1429, 45)
    assert values["hour"] == pytest.approx(45 * 32 * 0.04 + 142.9 * 0.005)
    assert values["million"] == pytest.approx(100 * values["hour"] / 36_000)


def test_a_tool_that_works() -> None:
    """A core that has time for 10,000 echoes has time for 500 calls that take 1.9 ms more."""
    values = evaluate(model(_BASIS, {"tool_ms": 1.9}))
    assert values["one_core"] == pytest.approx(500)


def test_what_is_assumed_is_not_measured() -> None:
    """It says so, in the page as on the terminal."""
    names = {each.name for each in model(_BASIS, {"core_calls": 5.0}).assumptions if each.measured}
    assert names == set(MEASURED) - {"core_calls"}


@given(st.sampled_from(NAMES), st.floats(1e-3, 99))
def test_any_assumption_can_be_changed(name: str, value: float) -> None:
    """And what follows is finite, and no less than nothing."""
    changed = dict([assumption(f"{name}={value}")])
    results = evaluate(model(_BASIS, changed))
    assert results[name] == value
    assert all(0 <= result < 1e15 for result in results.values())


def test_noise_is_not_extrapolated() -> None:
    """A hundred thousand replicas aren't quicker because two were, once."""
    assert evaluate(model(Basis(10_000, 104, 100), {})) == evaluate(model(_BASIS, {}))


def _measured(rate: float, used: float = 0.2, cpu_us: float = 100) -> Measured:
    return Measured(rate, cpu_us, p50_ms=1, p99_ms=2, rss_mb=100, used=used, load_busy=0.1)


def _course(size: int, *rounds: Measured, whole: bool = False) -> Course:
    return Course(f"{size}", f"{size} replicas", ECHO, size, whole, rounds=dict(enumerate(rounds)))


def _findings(rates: dict[int, list[float]], share: float | None = 0.2, **figures: float) -> Findings:
    steps = [_course(size, *(_measured(rate, **figures) for rate in each)) for size, each in rates.items()]
    whole = _course(1, _measured(10_000, 1), whole=True)
    return findings([Ladder("echo", steps, whole)], Room((1,), (0,), share), 16, {})


def test_efficiency_is_by_round() -> None:
    """A machine that is twice as fast in the second round is so for one replica, too."""
    found = _findings({1: [1000, 2000], 4: [3600, 7200]})
    row = found.tables[0].rows[1]
    assert (row.figures["efficiency"].min, row.figures["efficiency"].max) == (90, 90)
    assert found.sentence.startswith("4 replicas answered 3.60 times the calls of one")


@pytest.mark.parametrize(
    ("rate", "used", "says"),
    [
        (3960, 0.2, "99 % of what one alone did (echo): the claim holds."),
        (2000, 0.2, "50 % of what one alone did (echo): less than the claim says."),
        (4400, 0.2, "110 % of what one alone did (echo): more than the claim says."),
        (3960, 0.1, "they didn't use the shares"),
    ],
)
def test_the_words_follow_the_figures(rate: float, used: float, says: str) -> None:
    """Whatever they are."""
    assert says in _findings({1: [1000], 4: [rate]}, used=used).meaning


@pytest.mark.parametrize(("cpu_us", "says"), [(100, "is a small core"), (120, "is not just a small core")])
def test_what_a_share_stands_for(cpu_us: float, says: str) -> None:
    """A call costs as much with a fifth of a core as with all of it, or not."""
    assert says in _findings({1: [1000], 2: [2000]}, cpu_us=cpu_us).meaning


def test_one_replica_only() -> None:
    """Then there is nothing to compare, nor to extrapolate."""
    found = _findings({1: [1000]}, share=None)
    assert (found.sentence, found.model, found.plots) == ("More than one replica could not be measured here.", None, [])
    assert "could not be measured here" in found.meaning


def test_what_failed_does_not_count() -> None:
    """What is said is said of the most replicas that didn't fail."""
    steps = [_course(size, _measured(1000 * size)) for size in (1, 2, 4)]
    steps[-1].failure = "3 wrong replies"
    found = findings([Ladder("echo", steps, _course(1, _measured(1000, 1), whole=True))], Room((1,), (0,), 0.2), 16, {})
    assert found.tables[0].rows[-1].failure == "3 wrong replies"
    assert found.sentence.startswith("2 replicas answered 2 times the calls of one")


def test_a_million_calls() -> None:
    """Two replicas with half a core each answer 1,000 calls a second: 1,000 s of a core and 200 s of a GB."""
    cost = cents(_measured(1000), 2, 0.5, (3.6, 0.36))
    assert cost == pytest.approx(100 * (1000 * 3.6 + 200 * 0.36) / 3600)


def test_cores_of_their_own() -> None:
    """As many for the load as for replicas; one that is left over is nobody's."""
    room = whole_cores(7, 0, [0, 1, 2, 3, 4, 5, 7])
    assert (room.server_cores, room.load_cores) == ((7, 1, 2), (0, 3, 4))
    assert (room.reason(3), room.reason(4)) == ("", "needs 8 cores, or a CPU quota for each; here: 6, ")
    assert whole_cores(0, 0, [0]).reason(1)


@given(st.integers(1, 16), st.integers(2, 9))
def test_shares_fit(replicas: int, cores: int) -> None:
    """As many as are asked for, unless told otherwise; none where the load is."""
    room = shares(0, range(cores), replicas, None)
    assert 0 not in room.server_cores
    assert room.share
    assert room.share * replicas <= FULL
    assert not any(room.reason(size) for size in range(1, replicas + 1))


def test_shares_that_do_not_fit() -> None:
    """They would take from each other, or from the load."""
    room = shares(0, [0, 1], 4, 40)
    assert [bool(room.reason(size)) for size in (1, 2, 3)] == [False, False, True]


@pytest.mark.parametrize(
    ("file", "some", "none"), [("cpu.max", "2000 10000", "max 10000"), ("cpu.cfs_quota_us", "2000", "-1")]
)
def test_what_the_kernel_is_told(file: str, some: str, none: str, tmp_path: Path) -> None:
    """In the words of either version."""
    (tmp_path / file).touch()
    Group(tmp_path).allow(0.2)
    assert (tmp_path / file).read_text() == some
    Group(tmp_path).allow(None)
    assert (tmp_path / file).read_text() == none


def test_a_small_share_has_a_longer_period(tmp_path: Path) -> None:
    """The kernel takes no quota below a millisecond."""
    (tmp_path / "cpu.max").touch()
    Group(tmp_path).allow(0.05)
    assert (tmp_path / "cpu.max").read_text() == "1000 20000"


def test_no_controller(tmp_path: Path) -> None:
    """Where a group is a mere folder, nothing is bounded."""
    with pytest.raises(NoQuota, match="no cpu controller"):
        Group(tmp_path).allow(0.2)


_V1 = """\
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct
33 31 0:30 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
"""
_V2 = "25 24 0:22 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
_INSIDE = "25 24 0:22 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"


@pytest.mark.parametrize(
    ("mounts", "memberships", "found"),
    [
        (_V1, "9:memory:/there\n1:cpu,cpuacct:/\n0::/", ["/sys/fs/cgroup/cpu"]),
        (_V2, "0::/user.slice/a.scope", [f"/sys/fs/cgroup{end}" for end in ("/user.slice/a.scope", "/user.slice", "")]),
        (_INSIDE, "0::/docker/abc", ["/sys/fs/cgroup"]),
        (_INSIDE, "0::/elsewhere", ["/sys/fs/cgroup"]),
        ("22 1 0:5 / /proc rw - proc proc rw\n", "0::/", []),
    ],
)
def test_where_groups_may_be(mounts: str, memberships: str, found: list[str]) -> None:
    """This process's own, then those around it; of version 1 only the tree that has the CPU."""
    assert [str(place) for place in places(mounts, memberships)] == found
