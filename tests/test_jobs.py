"""How to test a job."""

import pytest
from mcp_swarm.testing import CallFailed, Client


def test_a_job(client: Client) -> None:
    """Submit it, and wait for its result. Without JOBS_URL it runs in the replica itself."""
    pytest.importorskip("server.jobs.sales")
    report = client.job("generate_report", rows=1000)
    assert report["rows"] == 1000
    assert sum(region["sales"] for region in report["regions"]) == 1000


def test_wrong_parameters(client: Client) -> None:
    """They are refused when the job is submitted."""
    pytest.importorskip("server.jobs.sales")
    with pytest.raises(CallFailed, match="rows: Input should be greater than or equal to 1"):
        client.job("generate_report", rows=0)
