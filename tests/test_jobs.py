"""Example tests of a job."""

import pytest
from anyreplica.testing import CallFailed, Client


def test_a_job(client: Client) -> None:
    """A submitted job returns its result; without JOBS_URL, the job runs in the replica itself."""
    pytest.importorskip("server.jobs.sales")
    report = client.job("generate_report", rows=1000)
    assert report["rows"] == 1000
    assert sum(region["sales"] for region in report["regions"]) == 1000


def test_wrong_parameters(client: Client) -> None:
    """A job with wrong parameters is refused when the client submits it."""
    pytest.importorskip("server.jobs.sales")
    with pytest.raises(CallFailed, match="rows: Input should be greater than or equal to 1"):
        client.job("generate_report", rows=0)
