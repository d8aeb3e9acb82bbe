"""The files of the Helm chart that come from other files: README, the schema of settings, dashboards and alerts."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from pydantic import SecretStr

from anyreplica import Settings

ROOT = Path(__file__).parents[3]
CHART = ROOT / "deploy" / "helm" / "anyreplica"
OBSERVABILITY = ROOT / "deploy" / "observability"

_INTRODUCTION = """\
# The Helm chart anyreplica

The chart runs an MCP server as identical replicas in Kubernetes 1.31 or newer. It is part of the project's source, so
`helm` reads it from this folder. The guide "Deploy to Kubernetes" of anyreplica's documentation describes the steps.

```bash
helm upgrade --install my-server deploy/helm/anyreplica --set image.repository=… --set image.tag=…
```

`make k8s` writes the chart with its defaults as plain manifests. `examples/external-secret.yaml` shows how the External
Secrets operator provides the secrets.

A value with a wrong name or type is refused, and the message names it. `values.schema.json` has the rules. Its rules
for `env` are those of the server's settings.

<!-- This file is generated from the comments in values.yaml. Edit them and run `make reference`. -->

## Upgrade notes

- **A change of `replicaCount` to autoscaling.** Helm removes the number of replicas from the Deployment, and
  Kubernetes then stops all replicas but one, until the autoscaler corrects this, about 15 s later. The stopped
  replicas finish their calls. A `kubectl scale` before the upgrade prevents this. The guide has the steps, and those
  for the way back.
- **After `kubectl scale`,** Helm no longer owns the number. An upgrade with another `replicaCount` fails with a
  conflict. Set `replicaCount` to the number that runs, or add `--force-conflicts` to `helm upgrade`.
- **Tools that only render the chart**, such as Argo CD, cannot read the Secret with `request_state_keys` from the
  cluster, and would create new keys at each run. Create the Secret yourself, and name it in `secrets.existingSecret`.
- **After a change of a Secret,** run `kubectl rollout restart`, because a replica reads its settings at its start. Only
  `API_KEYS_FILE` is read again while the replica runs.
- **After an uninstall,** the Secret with `request_state_keys` stays. Delete it if you no longer need it.

## Values

"""
_TASKS = "On a manager node, run docker service ps --no-trunc mcp-swarm_mcp and read the"
_PODS = "Run kubectl describe pods -l app.kubernetes.io/component=replica and read the"
_FOR_KUBERNETES = {
    f"{_TASKS} columns NODE and ERROR.": f"{_PODS} node, the last state and the events.",
    f"{_TASKS} column ERROR.": f"{_PODS} last state and the events.",
    f"{_TASKS} exit code in the column ERROR.": f"{_PODS} exit code of the last state.",
    'For "non-zero exit (3)"': "For exit code 3",
    'For "No such image", push the image or copy it to each node.': 'For "ImagePullBackOff", push the image.',
    "with a deployment, deploy the previous image (make rollback).": "with an upgrade, run helm rollback.",
    "of the secret metrics_token: deploy again.": "of the secret metrics_token: run kubectl rollout restart.",
    "The stack was deployed with more replicas.": "The release has more replicas.",
    "with docker service scale, deploy with the new number (make redeploy REPLICAS=…).": (
        "with kubectl scale, set replicaCount to this number."
    ),
    "add replicas (make redeploy REPLICAS=…)": "add replicas (replicaCount)",
    "more replicas help (make redeploy REPLICAS=…)": "more replicas help (replicaCount)",
    "Add replicas before that: make redeploy REPLICAS=…": "Add replicas before that (replicaCount).",
    "The mesh balances connections": "A Service balances connections",
    "in stack.yml, or use deploy/edge.yml, which balances requests.": (
        "in env, or use a gateway that balances requests."
    ),
    "deploy/edge.yml balances requests.": "Many gateways balance requests.",
    "# stack.yml sets the limit of 512 MB.": "# The limit of 512 MiB is the default of the chart.",
    "(docker service update --force mcp-swarm_mcp)": "(kubectl rollout restart)",
    "On a manager node, run docker service ps --no-trunc mcp-swarm_worker to see": (
        "Run kubectl describe pods -l app.kubernetes.io/component=worker to see"
    ),
    "the column ERROR has the reason": "the last state and the events have the reason",
    "add workers (WORKERS=… make redeploy)": "add workers (worker.replicaCount)",
    "(ulimits in stack.yml)": "(a limit of the container runtime)",
    "(stack.yml)": "(the default of the chart)",
    "docker service ps --no-trunc mcp-swarm_mcp": "kubectl describe pods -l app.kubernetes.io/component=replica",
    "docker service ps mcp-swarm_mcp": "kubectl describe pods -l app.kubernetes.io/component=replica",
    "docker service ps mcp-swarm_worker": "kubectl get pods -l app.kubernetes.io/component=worker",
    "docker service logs mcp-swarm_mcp": "kubectl logs -l app.kubernetes.io/component=replica",
    "docker service logs mcp-swarm_worker": "kubectl logs -l app.kubernetes.io/component=worker",
}
"""Texts about a Swarm in the dashboards and the alerts, and the texts that replace them in the chart."""
_AUTOSCALED = re.compile(r"\(max\(mcp_autoscale_replicas\{[^}]*\}\) or max\(mcp_replicas\)\)")
"""The number of replicas that should run, if the autoscaler of the Swarm may have changed it."""


@dataclass(frozen=True)
class Value:
    """A value of the chart: its path, such as `image.tag`, its comment and its default."""

    path: str
    comment: str
    default: object


def values() -> Iterator[Value]:
    """Yield the values of the chart in the order of `values.yaml`, first each section and then what is in it.

    A value without a comment belongs to the value above it, whose default then shows it.
    """
    comment: list[str] = []
    path: list[str] = []
    text = (CHART / "values.yaml").read_text()
    loaded = yaml.safe_load(text)
    for line in text.partition("\n\n")[2].splitlines():
        found = re.match(r"( *)([\w./-]+):", line)
        if line.lstrip().startswith("#"):
            comment.append(line.strip().removeprefix("#").strip())
        elif found:
            path = [*path[: len(found[1]) // 2], found[2]]
            if comment:
                default = loaded
                for name in path:
                    default = default[name]
                yield Value(".".join(path), " ".join(comment), default)
            comment = []


def readme() -> str:
    """Return the chart's README."""
    every = list(values())
    parts, rows = [_INTRODUCTION.rstrip()], list[str]()
    sections = {value.path for value in every if any(each.path.startswith(f"{value.path}.") for each in every)}
    for value in every:
        if value.path in sections and "." not in value.path:
            parts += [*_table(rows), f"\n### `{value.path}`\n\n{value.comment}"]
            rows = []
        elif value.path not in sections and "." not in value.path:
            parts += [*_table(rows), f"\n### `{value.path}`\n\n{value.comment} Default: {_shown(value.default)}."]
            rows = []
        else:
            default = "" if value.path in sections else _shown(value.default)
            rows.append(f"| `{value.path}` | {default} | {value.comment} |".replace("|  |", "| |"))
    return "\n".join([*parts, *_table(rows)]) + "\n"


def _table(rows: list[str]) -> list[str]:
    return ["\n| value | default | meaning |\n| --- | --- | --- |", *rows] if rows else []


def _shown(default: object) -> str:
    return f"`{json.dumps(default)}`"


def schema() -> str:
    """Return `values.schema.json` with the rules of the settings, which come from `anyreplica.settings`."""
    found = json.loads((CHART / "values.schema.json").read_text())
    found["$defs"]["settings"] = {
        "description": "Settings. Other names are settings of your own.",
        "type": "object",
        "propertyNames": {"pattern": "^[A-Z_][A-Z0-9_]*$"},
        "properties": {name.upper(): _rule(name) for name in sorted(Settings.model_fields) if not is_secret(name)},
        "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
    }
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"


def is_secret(name: str) -> bool:
    """Return whether a setting is a secret, which the chart refuses as a variable."""
    return "SecretStr" in str(Settings.model_fields[name].annotation) or isinstance(
        Settings.model_fields[name].default, SecretStr
    )


def _rule(name: str) -> dict[str, Any]:
    """Return the JSON schema of a setting's variable. Numbers may be text. null removes a default of the chart."""
    rule = Settings.model_json_schema()["properties"][name]
    bounds = {key: rule[key] for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum") if key in rule}
    text = {"integer": "^[0-9]+$", "number": r"^[0-9]+(\.[0-9]+)?$"}
    if rule.get("type") in text:
        accepted = [
            {"type": rule["type"], **bounds},
            {"type": "string", "pattern": text[rule["type"]]},
            {"type": "null"},
        ]
        return {"description": _line(rule), "anyOf": accepted}
    if rule.get("type") == "boolean":
        return {"description": _line(rule), "enum": [True, False, "true", "false", None]}
    if "enum" in rule:
        plain = [value == "true" for value in rule["enum"] if value in ("true", "false")]
        return {"description": _line(rule), "enum": [*rule["enum"], *plain, None]}
    return {"description": _line(rule), "type": ["string", "number", "null"]}


def _line(rule: dict[str, Any]) -> str:
    return " ".join(rule["description"].split())


_BLOCK = re.compile(r"^ {4}\{$[\s\S]*?^ {4}\},?$\n|^ {6}- alert:.*\n(?: {8}.*\n)+", re.MULTILINE)
"""A panel of a dashboard, or an alert."""


def _copied(file: Path) -> str:
    """Return a dashboard or the alerts with commands for Kubernetes instead of those for a Swarm.

    Panels and alerts about the autoscaler of the Swarm are left out: on Kubernetes, an HPA or KEDA scales.
    """
    text = _AUTOSCALED.sub("max(mcp_replicas)", file.read_text())
    text = _BLOCK.sub(lambda block: "" if "mcp_autoscale_" in block[0] else block[0], text)
    for before, after in _FOR_KUBERNETES.items():
        # The runbooks of the alerts are folded, so a text may go over two lines.
        text = re.sub(r"\s+".join(map(re.escape, before.split())), after, text)
    return text


FILES: dict[Path, Callable[[], str]] = {
    CHART / "README.md": readme,
    CHART / "values.schema.json": schema,
    CHART / "alerts.yml": partial(_copied, OBSERVABILITY / "alerts.yml"),
    **{
        CHART / "dashboards" / file.name: partial(_copied, file)
        for file in sorted((OBSERVABILITY / "grafana" / "dashboards").glob("*.json"))
    },
}
"""The generated files of the chart."""
