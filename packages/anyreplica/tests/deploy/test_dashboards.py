"""Tests of Grafana's dashboards with a real Prometheus that scrapes real replicas."""

import contextlib
import json
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
import yaml

from conftest import Server, until
from tests.autoscale.engine import Engine, autoscaling
from tests.deploy.prometheus import FOLDER, Prometheus, rules, scraping, uncompared
from tests.deploy.traffic import SETTINGS, traffic, write_keys
from tests.replicas import KEYS, RedisServer, running

pytestmark = pytest.mark.slow

TOKEN = "m" * 40
NAMES = ["replica-1", "replica-2", "replica-3"]

FILES = sorted((FOLDER / "grafana" / "dashboards").glob("*.json"))
DASHBOARDS = {path.stem: json.loads(path.read_text()) for path in FILES}
PANELS = [
    pytest.param(panel, id=f"{name}-{panel['title']}")
    for name, dashboard in DASHBOARDS.items()
    for panel in dashboard["panels"]
]


Variables = dict[str, str]


def fill(text: str, variables: Variables) -> str:
    """Return a query with values in place of Grafana's variables."""
    for name, value in variables.items():
        text = text.replace(f"${name}", value)
    assert "$" not in text, text
    return text


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A Prometheus with three replicas and a worker with one Redis, and callers of all kinds."""
    folder = tmp_path_factory.mktemp("fleet")
    with contextlib.ExitStack() as stack:
        redis = stack.enter_context(RedisServer(folder / "redis.log"))
        keys = write_keys(folder / "keys")
        settings = {**SETTINGS, "API_KEYS_FILE": keys, "JOBS_URL": redis.url, "REDIS_URL": redis.url}
        settings["METRICS_TOKEN"] = TOKEN
        replicas = stack.enter_context(running(folder, 3, **settings)).replicas
        shared = {"MCP_REPLICAS": "3", "REQUEST_STATE_KEYS": KEYS}
        stack.enter_context(Server(folder / "worker.log", "worker", **settings, **shared))
        engine = stack.enter_context(Engine())
        engine.add("mcp", 1, env={"MCP_PORT": str(replicas[0].port)})
        _, url = stack.enter_context(autoscaling(engine, folder / "autoscaler.log", token=TOKEN))
        with traffic(replicas), scraping(folder, replicas, TOKEN, int(url.rpartition(":")[2])) as found:
            yield found


@pytest.fixture
def variables(prometheus: Prometheus) -> Variables:
    """The values of Grafana's variables, with one replica selected in those of the replica dashboard."""
    chosen = {"__rate_interval": "5s", "__range": "1m"}
    for variable in DASHBOARDS["replica"]["templating"]["list"]:
        found = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"])
        assert found is not None
        query, label = found.groups()
        chosen[variable["name"]] = prometheus.wait(fill(query, chosen))[0].labels[label]
    return chosen


@pytest.mark.needs("prometheus")
@pytest.mark.needs("redis")
@pytest.mark.parametrize("panel", PANELS)
def test_every_query_of_a_panel_has_a_result(prometheus: Prometheus, variables: Variables, panel: Any) -> None:
    """Each query of a panel has a result, and the result has the labels that the legend uses."""
    for target in panel["targets"]:
        expression = fill(target["expr"], variables).replace(" or vector(0)", "")
        legend = set(re.findall(r"{{(\w+)}}", target.get("legendFormat", "")))
        for series in prometheus.wait(expression):
            assert legend <= series.labels.keys(), expression


@pytest.mark.needs("prometheus")
@pytest.mark.needs("redis")
@pytest.mark.parametrize("name", [*rules("alert"), *rules("record")])
def test_every_rule_has_data(prometheus: Prometheus, name: str) -> None:
    """Each rule has data: an alert's comparison can be evaluated, and a recorded expression has a value."""
    rule = {**rules("alert"), **rules("record")}[name]
    expression = uncompared(rule["expr"]).replace(" or vector(0)", "")
    assert prometheus.wait(expression)


@pytest.mark.needs("prometheus")
@pytest.mark.needs("redis")
def test_the_metrics_show_all_outcomes(prometheus: Prometheus) -> None:
    """The metrics show all outcomes and reasons that the callers caused, and the alert for many faults fires."""
    outcomes, reasons = ("ok", "tool_error", "rpc_error", "fault", "gone"), ("auth", "overload", "rate", "size")
    for selector in (
        *(f'mcp_requests_total{{outcome="{outcome}"}}' for outcome in outcomes),
        *(f'mcp_refused_total{{reason="{reason}"}}' for reason in reasons),
        *(f'mcp_jobs_total{{state="{state}"}}' for state in ("completed", "failed", "cancelled")),
        'mcp_client_requests_total{kind="elicitation", outcome="answered"}',
        'mcp_requests_total{tool="unknown"}',
        'mcp_requests_total{method="other"}',
        'ALERTS{alertname="ErrorBudgetBurnsFast", alertstate="firing"}',
    ):
        assert prometheus.wait(f"{selector} > 0")
    (shares,) = [panel for panel in DASHBOARDS["fleet"]["panels"] if panel["title"] == "Share per replica"]
    found = prometheus.query(shares["targets"][0]["expr"])
    assert {series.labels["replica"] for series in found} == set(NAMES)

    def fits() -> bool:
        # Prometheus evaluates one rule after the other, so a query may meet a new and an old figure.
        found = prometheus.query(shares["targets"][0]["expr"])
        return sum(series.value for series in found) == pytest.approx(1)

    until(fits, "the shares of all replicas are 1 together")


@pytest.mark.parametrize("name", DASHBOARDS)
def test_a_dashboard_fits_together(name: str) -> None:
    """Ids are unique, panels do not overlap, and all variables and linked dashboards exist."""
    dashboard = DASHBOARDS[name]
    panels = dashboard["panels"]
    assert dashboard["uid"] == f"mcp-{name}"
    assert [panel["id"] for panel in panels] == list(range(1, len(panels) + 1))
    cells = [
        (x, y)
        for at in (panel["gridPos"] for panel in panels)
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) == 23
    text = json.dumps(panels)
    named = {variable["name"] for variable in dashboard.get("templating", {}).get("list", [])}
    assert set(re.findall(r"\$(\w+)", text)) - {"__rate_interval", "__range"} <= named
    assert set(re.findall(r"/d/([\w-]+)", text)) <= {each["uid"] for each in DASHBOARDS.values()}


@pytest.mark.parametrize("panel", PANELS)
def test_a_panel_says_what_it_shows_and_what_to_do(panel: dict[str, Any]) -> None:
    """A panel has a description, a unit, rising thresholds, and queries with unique names."""
    assert panel["description"].endswith(".") or panel["description"].endswith("…")
    defaults = panel["fieldConfig"]["defaults"]
    assert defaults["unit"]
    steps = [step["value"] for step in defaults.get("thresholds", {}).get("steps", [{"value": None}])]
    assert steps[0] is None
    assert all(low < high for low, high in pairwise(steps[1:]))
    assert [target["refId"] for target in panel["targets"]] == list("ABC"[: len(panel["targets"])])


def test_the_data_source_is_the_one_that_dashboards_name() -> None:
    """The data source is the one that the dashboards use, and has the scrape interval of Prometheus."""
    file = FOLDER / "grafana" / "provisioning" / "datasources" / "prometheus.yml"
    (source,) = yaml.safe_load(file.read_text())["datasources"]
    assert source["isDefault"] is True
    named = re.findall(r'"datasource": ({.+?})', json.dumps(DASHBOARDS))
    assert {json.loads(each)["uid"] for each in named} == {source["uid"]}
    scraped = yaml.safe_load((FOLDER / "prometheus.yml").read_text())["global"]["scrape_interval"]
    assert source["jsonData"]["timeInterval"] == scraped
