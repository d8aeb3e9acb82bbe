#!/usr/bin/env python3
"""A fake docker command for a Swarm. It stores its input in the file that SWARM names and starts nothing.

The real docker command runs `docker stack config`. A command that is not implemented here fails.
"""

import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

STATE = Path(os.environ["SWARM"])


def value(arguments: list[str], name: str) -> str:
    """Return an option's value, for example of `--filter label=…`."""
    return arguments[arguments.index(name) + 1]


def config(arguments: list[str]) -> str:
    """Merge the stack's files and return the result."""
    command = [os.environ["DOCKER"], "stack", "config", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout


def service(name: str, wanted: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    """Return a service as `docker service inspect` shows it; `names` has the secrets of the stack and their names."""
    deploy = wanted.get("deploy", {})
    replicated = {} if deploy.get("mode") == "global" else {"Replicated": {"Replicas": deploy.get("replicas", 1)}}
    secrets = {each.get("target") or each["source"]: names[each["source"]] for each in wanted.get("secrets", ())}
    environment = [f"{key}={each}" for key, each in wanted.get("environment", {}).items()]
    files = [{"File": {"Name": file}, "SecretName": secret} for file, secret in secrets.items()]
    container = {"Image": wanted["image"], "Env": environment, "Secrets": files}
    spec = {"Name": name, "Labels": deploy.get("labels", {}), "Mode": replicated}
    return {
        "ID": name,
        "Spec": {**spec, "TaskTemplate": {"ContainerSpec": container}},
        "Endpoint": {"Ports": [{"PublishedPort": port["published"]} for port in wanted.get("ports", ())]},
    }


def failed(old: dict[str, Any] | None, new: dict[str, Any], update: int) -> dict[str, Any]:
    """Return a service after its update has failed in the state that FAILING_STATE names.

    If Swarm pauses the update, the service has its new description. Otherwise Swarm has taken the old one again.
    """
    state = os.environ.get("FAILING_STATE", "rollback_completed")
    described = new if state == "paused" or old is None else old
    return {**described, "UpdateStatus": {"StartedAt": str(update), "State": state}}


def answer(arguments: list[str], state: dict[str, Any]) -> str:
    """Return the output of a docker command."""
    match arguments:
        case [kind, *rest] if kind in COMMANDS:
            return COMMANDS[kind](rest, state)
        case ["run", *_]:
            return os.environ.get("REPEATABLE", "")
        case ["context", "inspect", *_]:
            return "unix:///var/run/docker.sock"
        case ["inspect", "--type", "task", *_]:
            return json.dumps(running(state))
    sys.exit(f"this stand-in does not support: docker {' '.join(arguments)}")


def of_nodes(arguments: list[str], state: dict[str, Any]) -> str:
    """Return the output of `docker node ls`: id, whether the command runs on this node, availability, and name."""
    if arguments[0] != "ls":
        sys.exit(f"this stand-in does not support: docker node {' '.join(arguments)}")
    nodes = state["nodes"].items()
    return "\n".join(f"{name} {str(name == 'manager').lower()} {availability} {name}" for name, availability in nodes)


def of_networks(_: list[str], state: dict[str, Any]) -> str:
    """Return the output of `docker network ls`."""
    if state["networks"] is None:
        sys.exit("Cannot connect to the Docker daemon.")
    return going(state["networks"])


def of_secrets(arguments: list[str], state: dict[str, Any]) -> str:
    """Return the output of `docker secret`."""
    match arguments:
        case ["inspect", name] if name in state["secrets"]:
            return "[]"
        case ["create", name, "-"]:
            state["secrets"][name] = sys.stdin.read()
            return str(name)
    sys.exit(f"this stand-in does not support: docker secret {' '.join(arguments)}")


def of_services(arguments: list[str], state: dict[str, Any]) -> str:
    """Return the output of `docker service`."""
    services = state["services"]
    match arguments:
        case ["ls", *_]:
            return "\n".join(services)
        case ["rm", name]:
            del services[name]
            return str(name)
        case ["inspect", *names]:
            return json.dumps([services[name] for name in names])
    sys.exit(f"this stand-in does not support: docker service {' '.join(arguments)}")


def going(parts: dict[str, int]) -> str:
    """Return the names of parts that are being removed; each value is the number of times that it is still listed."""
    names = "\n".join(parts)
    for name in [*parts]:
        parts[name] -= 1
        if not parts[name]:
            del parts[name]
    return names


def of_stack(arguments: list[str], state: dict[str, Any]) -> str:
    """Return the output of `docker stack`."""
    match arguments:
        case ["config", *files]:
            return config(files)
        case ["ps", *_]:
            listed = going(state.get("tasks", {})) or "\n".join(task["ID"] for task in running(state))
            return listed or sys.exit("nothing found in stack: mcp-swarm")
        case ["rm", "refused"]:
            sys.exit("permission denied")
        case ["rm", _]:
            state["services"] = {}
            used = state.setdefault("networks_in_use", {})
            for name in [*used]:  # each value is the number of times that a task still uses the network
                used[name] -= 1
                if used[name] < 0:
                    del used[name]
                    del state["networks"][name]
            if used:
                STATE.write_text(json.dumps(state))
                network = next(iter(used))
                sys.exit(f"Failed to remove network {network}: network {network} is in use by task 67jxc")
        case ["deploy", *options, stack]:
            found = yaml.safe_load(config(options[options.index("--compose-file") :]))
            names = {key: each.get("name", key) for key, each in found.get("secrets", {}).items()}
            made = {f"{stack}_{name}": each for name, each in found["services"].items()}
            deployed = {name: service(name, each, names) for name, each in made.items()}
            state["updates"] = state.get("updates", 0) + 1
            if failing := os.environ.get("FAILING"):
                deployed[failing] = failed(state["services"].get(failing), deployed[failing], state["updates"])
            state["services"] |= deployed
            state["deployed"] = {key: os.environ[key] for key in ("OBSERVABILITY_CFG", "IMAGE")}
            state["deployed"]["nodes"] = [*state.get("nodes", ())]
    return ""


def running(state: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the tasks as docker shows them: one of each service on each node of the last deployment."""
    return [
        {
            "ID": f"{name}.{node}.{container['Image']}",
            "ServiceID": name,
            "NodeID": node,
            "CreatedAt": "",
            "DesiredState": "running",
            "Status": {"State": "running"},
            "Spec": {"ContainerSpec": container},
        }
        for name, each in state["services"].items()
        for container in [each["Spec"]["TaskTemplate"]["ContainerSpec"]]
        for node in state.get("deployed", {}).get("nodes", ())
    ]


def of_images(arguments: list[str], state: dict[str, Any]) -> str:
    """Return the output of `docker image`. Each image has a name and an id; a tag is another name."""
    images = state.get("images", {})
    match arguments:
        case ["inspect", name] if name in images:
            return json.dumps([{"Id": f"sha256:{images[name]}", "RepoTags": [name]}])
        case ["tag", name, tagged]:
            images[tagged] = images[name]
            return ""
    sys.exit(f"this stand-in does not support: docker image {' '.join(arguments)}")


def of_configs(arguments: list[str], state: dict[str, Any]) -> str:
    """Return the output of `docker config`."""
    configs = state["configs"]
    match arguments:
        case ["ls", *_]:
            return "\n".join(configs)
        case ["inspect", *names]:
            return json.dumps([configs[name] for name in names])
        case ["rm", *names]:
            for name in names:
                del configs[name]
        case ["create", *options, name, "-"]:
            data = base64.b64encode(sys.stdin.read().encode()).decode()
            labels = dict(option.removeprefix("--label=").split("=", 1) for option in options)
            configs[name] = {"UpdatedAt": "", "Spec": {"Data": data, "Labels": labels}}
    return ""


COMMANDS: dict[str, Callable[[list[str], dict[str, Any]], str]] = {
    "config": of_configs,
    "image": of_images,
    "network": of_networks,
    "node": of_nodes,
    "secret": of_secrets,
    "service": of_services,
    "stack": of_stack,
}
"""For each first word of a docker command: the function that answers it."""


if __name__ == "__main__":
    before = STATE.read_text()
    kept = json.loads(before)
    said = answer(sys.argv[1:], kept)
    if (after := json.dumps(kept)) != before:  # replace the file at once, so that a reader never sees half of it
        written = STATE.with_name(str(os.getpid()))
        written.write_text(after)
        written.replace(STATE)
    if said:
        print(said)
    if sys.argv[1:3] == ["stack", "deploy"]:
        time.sleep(float(os.environ.get("WAITING_SECONDS", "0")))  # until all tasks run
        # Docker's exit code is 0 after a rollback that is complete, because all tasks run then.
        if os.environ.get("FAILING_STATE"):
            sys.exit(f"service update {os.environ['FAILING_STATE']}")
