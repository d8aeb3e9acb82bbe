"""Tests of `make deploy` for a running stack: what it keeps, shows and refuses."""

import re
from pathlib import Path

import pytest

from anyreplica.all_settings import Settings
from anyreplica.deploy import image, wanted
from anyreplica.deploy.running import RunningService
from conftest import ROOT
from tests.deploy.conftest import Swarm

pytestmark = [pytest.mark.servers, pytest.mark.needs("docker")]

KEYS, JOBS, EDGE = "deploy/keys.yml", "deploy/jobs.yml", "deploy/edge.yml"
SERVER = "registry.example.com:5000/server"


def test_a_deployment_says_where_it_serves_and_what_changes(swarm: Swarm) -> None:
    """The first deployment prints the server's address, and the next one each change with both values."""
    assert "deploy/none.yml" in swarm.deploy(code=1, OVERLAYS="deploy/none.yml")
    told = swarm.deploy(LOG_LEVEL="DEBUG")
    assert "Deploying mcp-swarm:latest as 'mcp-swarm' …" in told
    assert "Created the secret request_state_keys." in told
    assert "'mcp-swarm' serves on http://localhost:8150/mcp" in told
    assert "claude mcp add --transport http mcp-swarm http://localhost:8150/mcp" in told
    assert "Changes" not in told
    told = swarm.deploy(IMAGE="mcp-swarm:2")
    assert "  mcp.image: mcp-swarm:latest → mcp-swarm:2\n" in told
    assert "  mcp.environment.LOG_LEVEL: DEBUG → INFO\n" in told
    assert told.index("Changes:") < told.index("Deploying")


def test_a_dry_run_changes_nothing(swarm: Swarm) -> None:
    """`--dry-run` shows the changes of a deployment, of a first one too, and makes no service and no secret."""
    assert "this would deploy mcp-swarm:latest as 'mcp-swarm'. Nothing has changed." in swarm.deploy("--dry-run")
    assert not swarm.state["services"]
    assert not swarm.state["secrets"]
    swarm.deploy(PORT="9000")
    told = swarm.deploy("--same-image", "--dry-run", REPLICAS="5")
    assert "  mcp.deploy.replicas: 3 → 5\n" in told
    assert "  mcp.ports.8000.published: 9000 → 8150\n" in told
    assert swarm.state["services"]["mcp-swarm_mcp"]["Spec"]["Mode"]["Replicated"]["Replicas"] == 3


@pytest.mark.slow
def test_a_rollback_deploys_the_earlier_image(swarm: Swarm) -> None:
    """`make rollback` deploys the image before the present one, also after deployments of the same image."""
    assert "The stack 'mcp-swarm' does not run." in swarm.deploy("--rollback", code=2)
    swarm.deploy(IMAGE="registry.example.com:5000/server:1")
    told = swarm.deploy("--rollback", code=2)
    assert "no image other than registry.example.com:5000/server:1" in told
    assert "IMAGE=registry.example.com:5000/server:TAG make deploy" in told
    swarm.deploy(IMAGE="registry.example.com:5000/server:2", OVERLAYS=JOBS)
    swarm.deploy(IMAGE="registry.example.com:5000/server:2", LOG_LEVEL="DEBUG", REPLICAS="4")
    told = swarm.deploy("--rollback", LOG_LEVEL="DEBUG")
    assert "from registry.example.com:5000/server:2 to registry.example.com:5000/server:1." in told
    assert "mcp.image: registry.example.com:5000/server:2 → registry.example.com:5000/server:1\n" in told
    assert "Keeping REPLICAS=4" in told
    images = {
        name: each["Spec"]["TaskTemplate"]["ContainerSpec"]["Image"] for name, each in swarm.state["services"].items()
    }
    assert images["mcp-swarm_mcp"] == images["mcp-swarm_worker"] == "registry.example.com:5000/server:1"
    told = swarm.deploy("--rollback", LOG_LEVEL="DEBUG")
    assert "from registry.example.com:5000/server:1 to registry.example.com:5000/server:2." in told


@pytest.mark.slow
@pytest.mark.parametrize("scaled", [False, True])
def test_a_rollback_after_a_failed_update_skips_no_image(swarm: Swarm, scaled: bool) -> None:
    """If Swarm has rolled an update back, `make rollback` deploys that image to all services, and then the one before.

    A change of the number of replicas removes the state of the update.
    """
    for tag in (1, 2):
        swarm.deploy(IMAGE=f"{SERVER}:{tag}", OVERLAYS=JOBS)
    swarm.deploy(code=1, IMAGE=f"{SERVER}:3", FAILING="mcp-swarm_mcp")
    assert swarm.image("mcp") == f"{SERVER}:2"
    assert swarm.image("worker") == f"{SERVER}:3"
    if scaled:
        swarm.scale("mcp-swarm_mcp", 5)
    told = swarm.deploy("--rollback")
    assert f"The last deployment failed, and the replicas have the image before it: {SERVER}:2." in told
    assert swarm.image("mcp") == swarm.image("worker") == f"{SERVER}:2"
    assert f"Going back from {SERVER}:2 to {SERVER}:1." in swarm.deploy("--rollback")
    assert swarm.image("mcp") == f"{SERVER}:1"
    assert f"Going back from {SERVER}:1 to {SERVER}:2." in swarm.deploy("--rollback")


@pytest.mark.slow
def test_a_rollback_goes_to_no_image_whose_update_was_paused(swarm: Swarm) -> None:
    """The replicas before a paused update had the image of the last successful deployment."""
    paused = {"FAILING": "mcp-swarm_mcp", "FAILING_STATE": "paused"}
    for tag in (1, 2):
        swarm.deploy(IMAGE=f"{SERVER}:{tag}")
    swarm.deploy(code=1, IMAGE=f"{SERVER}:3", **paused)
    assert f"Going back from {SERVER}:3 to {SERVER}:2." in swarm.deploy("--rollback")
    swarm.deploy(code=1, IMAGE=f"{SERVER}:3", **paused)
    swarm.deploy(IMAGE=f"{SERVER}:4")
    assert f"Going back from {SERVER}:4 to {SERVER}:2." in swarm.deploy("--rollback")
    swarm.deploy(code=1, IMAGE=f"{SERVER}:5", **paused)
    swarm.deploy(IMAGE=f"{SERVER}:5")
    assert f"Going back from {SERVER}:5 to {SERVER}:2." in swarm.deploy("--rollback")


@pytest.mark.slow
def test_a_second_try_with_the_same_image_keeps_the_earlier_one(swarm: Swarm) -> None:
    """If a deployment has changed the replicas but failed, and its repetition succeeds, the earlier image is known."""
    swarm.deploy(IMAGE=f"{SERVER}:1", OVERLAYS=JOBS)
    swarm.deploy(code=1, IMAGE=f"{SERVER}:2", FAILING="mcp-swarm_worker")
    swarm.deploy(IMAGE=f"{SERVER}:2")
    assert f"Going back from {SERVER}:2 to {SERVER}:1." in swarm.deploy("--rollback")


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("a/b:1", "a/b:1", True),
        ("a/b:1@sha256:1", "a/b:1", True),
        ("a/b:1", "a/b:1@sha256:1", True),
        ("a/b:1@sha256:1", "a/b:1@sha256:2", False),
        ("a/b:1", "a/b:2@sha256:1", False),
    ],
)
def test_a_name_without_a_digest_means_any_digest(first: str, second: str, same: bool) -> None:
    """A tag that was pushed again is another image, if both digests are known."""
    assert image.same(first, second) is same


@pytest.mark.slow
def test_the_number_of_replicas_is_kept(swarm: Swarm) -> None:
    """Numbers of replicas and workers, also from `docker service scale`, are kept unless a variable sets others."""
    swarm.deploy(OVERLAYS=JOBS, REPLICAS="2", WORKERS="3")
    swarm.scale("mcp-swarm_mcp", 5)
    told = swarm.deploy()
    assert "Keeping REPLICAS=5" in told
    assert "Keeping WORKERS=3" in told
    assert "deploy.replicas" not in told, "the number of replicas that run does not change"
    told = swarm.deploy(REPLICAS="4")
    assert "Keeping REPLICAS" not in told
    assert swarm.state["services"]["mcp-swarm_mcp"]["Spec"]["Mode"]["Replicated"]["Replicas"] == 4


@pytest.mark.slow
def test_the_names_of_replaced_secrets_are_kept(swarm: Swarm) -> None:
    """A secret with another name stays until a variable names the next one."""
    swarm.deploy(OVERLAYS=KEYS)
    told = swarm.deploy(API_KEYS_SECRET="api_keys_2", REQUEST_STATE_KEYS_SECRET="request_state_keys_2")
    assert "Keeping API_KEYS_SECRET" not in told
    assert "Keeping API_KEYS_SECRET=api_keys_2 of the running stack." in swarm.deploy()
    told = swarm.deploy(API_KEYS_SECRET="api_keys")
    assert "API_KEYS_SECRET" not in told
    assert "Keeping REQUEST_STATE_KEYS_SECRET=request_state_keys_2 of the running stack." in told
    secrets = swarm.state["services"]["mcp-swarm_mcp"]["Spec"]["TaskTemplate"]["ContainerSpec"]["Secrets"]
    assert {each["SecretName"] for each in secrets} == {"api_keys", "request_state_keys_2"}


@pytest.mark.slow
def test_a_renewed_token_of_the_metrics_is_kept(swarm: Swarm) -> None:
    """METRICS_TOKEN_SECRET names the secret of the replicas and of the autoscaler, and the next deployment keeps it."""
    swarm.deploy(OVERLAYS="deploy/autoscale.yml")
    swarm.deploy(METRICS_TOKEN_SECRET="metrics_token_2")
    assert "Keeping METRICS_TOKEN_SECRET=metrics_token_2 of the running stack." in swarm.deploy()
    for name in ("mcp", "autoscale"):
        container = swarm.state["services"][f"mcp-swarm_{name}"]["Spec"]["TaskTemplate"]["ContainerSpec"]
        assert {"File": {"Name": "metrics_token"}, "SecretName": "metrics_token_2"} in container["Secrets"]


@pytest.mark.slow
def test_a_renewed_certificate_is_kept(swarm: Swarm, tmp_path: Path) -> None:
    """With the lines for TLS of the proxy, EDGE_PEM_SECRET names the certificate, and the next deployment keeps it."""
    commented = r"^( *)# (?=secrets:| {2}edge_pem:| {4}external: true$| {4}name: \$\{EDGE)"
    overlay, count = re.subn(commented, r"\1", (ROOT / EDGE).read_text(), flags=re.MULTILINE)
    assert count == 5
    (tmp_path / "edge.yml").write_text(overlay)
    swarm.deploy(OVERLAYS=str(tmp_path / "edge.yml"))
    swarm.deploy(EDGE_PEM_SECRET="edge_pem_2")
    assert "Keeping EDGE_PEM_SECRET=edge_pem_2 of the running stack." in swarm.deploy()
    container = swarm.state["services"]["mcp-swarm_edge"]["Spec"]["TaskTemplate"]["ContainerSpec"]
    assert container["Secrets"] == [{"File": {"Name": "edge_pem"}, "SecretName": "edge_pem_2"}]


@pytest.mark.slow
def test_the_bounds_of_automatic_scaling_are_kept(swarm: Swarm) -> None:
    """`make deploy` keeps the bounds of each service that is scaled automatically, unless a variable sets others."""
    swarm.deploy(OVERLAYS=f"{JOBS} deploy/autoscale.yml", AUTOSCALE_MAX="20", AUTOSCALE_DOWN_SECONDS="60")
    told = swarm.deploy(AUTOSCALE_WORKERS="true", AUTOSCALE_WORKERS_MAX="30")
    assert "Keeping AUTOSCALE_MAX=20 of the running stack." in told
    assert "Keeping AUTOSCALE_WORKERS" not in told
    told = swarm.deploy(AUTOSCALE_MAX="25")
    assert "Keeping AUTOSCALE_MAX" not in told
    labels = [swarm.state["services"][f"mcp-swarm_{name}"]["Spec"]["Labels"] for name in ("mcp", "worker")]
    assert [each["anyreplica.autoscale"] for each in labels] == ["true", "true"]
    assert [each["anyreplica.autoscale.max"] for each in labels] == ["25", "30"]
    assert labels[0]["anyreplica.autoscale.down-seconds"] == "60"


def test_the_components_are_kept(swarm: Swarm) -> None:
    """`make deploy` keeps MCP_COMPONENTS of the last deployment, unless the variable is set."""
    assert "Keeping" not in swarm.deploy(MCP_COMPONENTS="server,examples.analytics")
    assert "Keeping MCP_COMPONENTS=server,examples.analytics of the running stack." in swarm.deploy()
    container = swarm.state["services"]["mcp-swarm_mcp"]["Spec"]["TaskTemplate"]["ContainerSpec"]
    assert "MCP_COMPONENTS=server,examples.analytics" in container["Env"]
    assert "Keeping MCP_COMPONENTS" not in swarm.deploy(MCP_COMPONENTS="server")


@pytest.mark.slow
def test_overlays_are_kept(swarm: Swarm) -> None:
    """`make deploy` keeps the overlays unless OVERLAYS names others or is empty.

    The address is that of the proxy while there is one, and afterwards that of the replicas.
    """
    served = "'mcp-swarm' serves on http://localhost:{}/mcp\n"
    assert served.format(9000) in swarm.deploy(OVERLAYS=f"{JOBS} ./{EDGE}", EDGE_PORT="9000")
    told = swarm.deploy()
    assert served.format(8080) in told
    assert f'Keeping OVERLAYS="{JOBS} {EDGE}"' in told
    assert swarm.state["services"].keys() == {f"mcp-swarm_{name}" for name in ("mcp", "worker", "redis", "edge")}
    told = swarm.deploy(OVERLAYS=JOBS)
    assert "  edge.image: haproxy:lts-alpine → (none)\n" in told
    assert "Removed edge: none of the files has it any more.\n" in told
    assert served.format(8150) in told
    assert swarm.state["services"].keys() == {f"mcp-swarm_{name}" for name in ("mcp", "worker", "redis")}
    assert served.format(8150) in swarm.deploy()
    assert "Keeping" not in swarm.deploy(OVERLAYS="", REPLICAS="3")
    assert swarm.state["services"].keys() == {"mcp-swarm_mcp"}


@pytest.mark.slow
def test_protection_is_not_dropped_by_mistake(swarm: Swarm) -> None:
    """`make deploy` refuses with code 2 to drop a protecting setting, and prints the command that would do it."""
    swarm.deploy(OVERLAYS=KEYS)
    before = swarm.state
    told = swarm.deploy(code=2, OVERLAYS=JOBS)
    assert "would drop AUTH_ENABLED API_KEYS_FILE" in told
    assert f'The running stack has OVERLAYS="{KEYS}".' in told
    assert 'ALLOW_DROP="AUTH_ENABLED API_KEYS_FILE" make deploy' in told
    assert swarm.state == before
    assert "would drop API_KEYS_FILE," in swarm.deploy(code=2, OVERLAYS="", ALLOW_DROP="AUTH_ENABLED")
    swarm.deploy(OVERLAYS="", ALLOW_DROP="AUTH_ENABLED, API_KEYS_FILE")


@pytest.mark.slow
def test_the_protection_of_each_service_is_not_dropped_by_mistake(swarm: Swarm, tmp_path: Path) -> None:
    """`make deploy` also refuses to drop a protecting setting of another service than mcp, and names the services."""
    own = tmp_path / "own.yml"
    own.write_text(
        'version: "3.8"\n'
        "services:\n"
        "  mcp: {environment: {LOGIN_PROVIDER: github}}\n"
        "  worker: {environment: {LOGIN_PROVIDER: github, METRICS_TOKEN: secret}}\n"
    )
    swarm.deploy(OVERLAYS=f"{JOBS} {own}")
    told = swarm.deploy(code=2, OVERLAYS=JOBS)
    assert "would drop LOGIN_PROVIDER METRICS_TOKEN, which" in told
    assert "These services have the settings: mcp, worker.\n" in told
    told = swarm.deploy(code=2, OVERLAYS=JOBS, ALLOW_DROP="LOGIN_PROVIDER")
    assert "would drop METRICS_TOKEN, which" in told
    assert "These services have the settings: worker.\n" in told
    swarm.deploy(OVERLAYS=JOBS, ALLOW_DROP="LOGIN_PROVIDER METRICS_TOKEN")
    swarm.deploy(OVERLAYS=f"{JOBS} {own}")
    swarm.deploy(OVERLAYS="", ALLOW_DROP="LOGIN_PROVIDER")  # without the worker, nothing is left to protect


def running(environment: list[str], secrets: list[str]) -> RunningService:
    """Return a running service with some variables and some files of secrets."""
    files = [{"File": {"Name": secret}, "SecretName": secret} for secret in secrets]
    container = {"Env": environment, "Secrets": files}
    return RunningService("mcp", {"Spec": {"TaskTemplate": {"ContainerSpec": container}}})


@pytest.mark.parametrize("name", wanted.PROTECTING)
def test_a_protecting_setting_may_be_a_secret(name: str) -> None:
    """A secret with the name of a protecting setting protects, too; a setting that is off does not protect."""
    secret = name.lower()
    assert wanted.dropped_settings(running([f"{name}=x"], []), {}) == [name]
    assert wanted.dropped_settings(running([], [secret]), {}) == [name]
    assert wanted.dropped_settings(running([f"{name}=x"], []), {"secrets": [{"source": secret}]}) == []
    assert wanted.dropped_settings(running([], [secret]), {"environment": {name: "y"}}) == []
    for off in ("", "0", "false", "off", "F", "n"):
        assert wanted.dropped_settings(running([f"{name}={off}"], []), {}) == []
        if off:
            switched_off = {"environment": {name: off}, "secrets": [{"source": secret}]}
            assert wanted.dropped_settings(running([], [secret]), switched_off) == [name], (
                "a variable comes before a secret"
            )
    for empty in ("", None):
        assert wanted.dropped_settings(running([f"{name}=x"], []), {"environment": {name: empty}}) == [name]
    # Names as the server reads them: upper and lower case do not matter, and a target may have its folder.
    assert wanted.dropped_settings(running([f"{secret}=x"], []), {}) == [name]
    assert wanted.dropped_settings(running([], [f"/run/secrets/{secret}"]), {}) == [name]


@pytest.mark.parametrize(
    ("before", "after", "weaker"),
    [
        ("require", "accept", True),
        ("require", "off", True),
        ("accept", "off", True),
        ("require", "require", False),
        ("accept", "require", False),
        ("accept", "accept", False),
        ("off", "accept", False),
    ],
)
def test_weaker_signing_is_dropped_signing(before: str, after: str, weaker: bool) -> None:
    """With SIGNING=accept in place of SIGNING=require, callers no longer have to sign."""
    dropped = wanted.dropped_settings(running([f"SIGNING={before}"], []), {"environment": {"SIGNING": after}})
    assert dropped == (["SIGNING"] if weaker else [])


AUTHENTICATION = {"auth_enabled", "auth_token", "api_keys_file", "auth_jwt_issuer", "login_provider", "signing"}


def test_all_ways_of_authentication_protect() -> None:
    """The list names real settings, and each setting without which callers need less than before."""
    protecting = {name.lower() for name in wanted.PROTECTING}
    assert protecting <= Settings.model_fields.keys()
    assert protecting >= AUTHENTICATION | {"protect_custom_routes", "metrics_token"}
    groups = ("auth_jwt_", "login_")
    others = {name for name in Settings.model_fields if name.startswith(groups)} - protecting
    # Without one of these, the server does not start or uses its default.
    assert others == {
        "auth_jwt_algorithms",
        "login_client_id",
        "login_client_secret",
        "login_issuer",
        "login_tenant",
        "login_rate_limit",
        "login_cache_seconds",
    }


@pytest.mark.slow
def test_secrets_and_configs_are_made_once(swarm: Swarm) -> None:
    """`make deploy` makes secrets once, whatever spelling a path has, and the same files keep their number."""
    swarm.deploy(OVERLAYS=EDGE)
    assert swarm.state["secrets"].keys() == {"request_state_keys"}
    told = swarm.deploy(OVERLAYS=f"{EDGE} ./{JOBS} deploy/observability.yml")
    made, number = swarm.state["secrets"], swarm.state["deployed"]["OBSERVABILITY_CFG"]
    assert int(number)
    password = made["jobs_url"].removeprefix("redis://:").removesuffix("@redis:6379/0")
    assert len(bytes.fromhex(password)) == 24
    assert len(bytes.fromhex(made["metrics_token"])) == 32
    assert f"password {made['grafana_password']}. " in told
    again = swarm.deploy()
    assert "password" not in again
    assert (swarm.state["secrets"], swarm.state["deployed"]["OBSERVABILITY_CFG"]) == (made, number)


@pytest.mark.slow
@pytest.mark.parametrize("service", ["mcp", "worker"])
def test_make_deploy_fails_after_a_rollback(swarm: Swarm, service: str) -> None:
    """If Swarm rolls back an update, the code is 1, and the next deployment is compared with the running stack."""
    swarm.deploy(OVERLAYS=JOBS)
    told = swarm.deploy(code=1, FAILING=f"mcp-swarm_{service}", LOG_LEVEL="DEBUG")
    assert f"The update of {service} failed, and Swarm rolled it back (rollback_completed)." in told
    assert "No changes" in swarm.deploy()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("state", "outcome"),
    [
        ("paused", "paused it"),
        ("rollback_started", "is rolling it back"),
        ("rollback_paused", "could not roll it back"),
    ],
)
def test_make_deploy_explains_an_update_that_docker_reports(swarm: Swarm, state: str, outcome: str) -> None:
    """If docker itself fails because of the update, `make deploy` also names the service and what Swarm did."""
    swarm.deploy()
    told = swarm.deploy(code=1, FAILING="mcp-swarm_mcp", FAILING_STATE=state, LOG_LEVEL="DEBUG")
    assert f"service update {state}" in told
    assert f"The update of mcp failed, and Swarm {outcome} ({state})." in told


@pytest.mark.slow
def test_the_time_limit_may_pass_during_a_rollback(swarm: Swarm) -> None:
    """After the time limit, `make deploy` says whether Swarm goes on with the deployment or takes it back."""
    limit = {"DEPLOY_SECONDS": "5", "WAITING_SECONDS": "60"}
    late = "The stack has not converged within 5 s (DEPLOY_SECONDS)."
    swarm.deploy()
    told = swarm.deploy(code=1, FAILING="mcp-swarm_mcp", FAILING_STATE="rollback_started", **limit)
    assert f"{late}\nThe update of mcp failed, and Swarm is rolling it back (rollback_started)." in told
    told = swarm.deploy(code=1, **limit)
    assert f"{late} Swarm continues the deployment.\n" in told
    assert "failed" not in told
