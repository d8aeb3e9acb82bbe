"""The comparison of ASGI servers."""

import pytest

from benchmarks.asgi.variants import VARIANTS
from benchmarks.asgi_servers import SCRIPT
from benchmarks.study.command import main
from benchmarks.study.study import read


@pytest.mark.alone
@pytest.mark.needs("h2load")
def test_it_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """HTTP/1.1 and HTTP/2, with TLS and without: each case has figures that can be."""
    assert main(SCRIPT, ["--quick", "--seconds", "0.1", "--only", "template,granian-h2", "--json", "-"]) == 0
    study = read(capsys.readouterr().out)
    assert study.failures == []
    assert len(study.findings.tables) == 7
    for table in study.findings.tables:
        assert [row.name for row in table.rows] == ["template", "granian-h2"]
        for row in table.rows:
            assert {column.name for column in table.columns} == row.figures.keys()
            assert all(0 <= spread.min <= spread.max for spread in row.figures.values())
    for table in study.findings.tables[1:]:
        assert table.median("template", "errors") == 0
        assert 0 < table.rows[0].figures["p50"].median <= table.rows[0].figures["p99"].median
    assert study.findings.sentence in study.findings.meaning


def test_a_name_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    """The others are listed."""
    with pytest.raises(SystemExit):
        main(SCRIPT, ["--only", "apache"])
    said = capsys.readouterr().err
    assert "'apache' is none of template, httptools" in said


def test_what_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """With how to get it."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert VARIANTS[-1].missing == "granian is not installed: pip install granian"
