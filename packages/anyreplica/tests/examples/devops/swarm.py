"""A Swarm as Docker's API shows it, with many secret values."""

from typing import Any

SECRET = "hunter2"
DIGEST = "@sha256:" + "0123456789abcdef" * 4


def service(name: str, running: int, desired: int, update: dict[str, str] | None = None) -> dict[str, Any]:
    """Return a service (`Service` in the Engine API's reference)."""
    container: dict[str, Any] = {"Image": f"shop/{name}:1.2{DIGEST}", "Labels": {"password": SECRET}}
    container |= {"Command": ["sh", SECRET], "Args": [f"--password={SECRET}"], "Env": [f"PASSWORD={SECRET}"]}
    container |= {"Mounts": [{"Type": "bind", "Source": f"/{SECRET}", "Target": "/data"}]}
    container |= {"Secrets": [{"SecretID": SECRET, "SecretName": SECRET, "File": {"Name": SECRET, "UID": "0"}}]}
    container |= {"Configs": [{"ConfigID": SECRET, "ConfigName": SECRET}]}
    container |= {"Privileges": {"CredentialSpec": None, "SELinuxContext": None}}
    template: dict[str, Any] = {"ContainerSpec": container, "ForceUpdate": 0}
    template |= {"Resources": {"Limits": {"NanoCPUs": 1}, "Reservations": {}}}
    template |= {"Placement": {"Constraints": [f"node.labels.{SECRET} == 1"]}}
    template |= {"LogDriver": {"Name": "syslog", "Options": {"token": SECRET}}}
    spec: dict[str, Any] = {"Name": name, "Labels": {"com.docker.stack.namespace": SECRET}, "TaskTemplate": template}
    spec |= {"Mode": {"Replicated": {"Replicas": desired}}, "Networks": [{"Target": SECRET}]}
    return {
        "ID": f"id-of-{name}",
        "Version": {"Index": 95},
        "CreatedAt": "2026-01-02T03:04:05.123456789Z",
        "UpdatedAt": "2026-02-03T04:05:06.123456789Z",
        "Spec": spec,
        "PreviousSpec": {"Name": name, "TaskTemplate": {"ContainerSpec": {"Env": [SECRET]}}},
        "Endpoint": {"VirtualIPs": [{"NetworkID": SECRET, "Addr": "10.0.0.2/16"}]},
        **({"UpdateStatus": update} if update else {}),
        "ServiceStatus": {"RunningTasks": running, "DesiredTasks": desired, "CompletedTasks": 0},
        "JobStatus": {"Name": f"{SECRET}-name", "ID": SECRET},
    }


def task(of: str, number: int, state: str, error: str = "") -> dict[str, Any]:
    """Return a task (`Task` in the Engine API's reference)."""
    status = {"Timestamp": f"2026-02-03T04:05:{number:02}.123456789Z", "State": state, "Message": "started"}
    container = {"ContainerStatus": {"ContainerID": SECRET, "PID": 0, "ExitCode": 1}, "PortStatus": {}}
    return {
        "ID": f"{SECRET}-{number}",
        "CreatedAt": "2026-02-03T04:05:06.9Z",
        "Spec": {"ContainerSpec": {"Image": f"shop/{of}:1.2", "Env": [f"PASSWORD={SECRET}"]}},
        "ServiceID": f"id-of-{of}",
        "Slot": number,
        "NodeID": SECRET,
        "Status": {**status, **container, **({"Err": error} if error else {})},
        "DesiredState": "running" if state in ("running", "pending") else "shutdown",
        "NetworksAttachments": [{"Network": {"ID": SECRET}, "Addresses": ["10.0.0.3/16"]}],
    }


SWARM = {
    "services": [
        service("web", 3, 3, {"State": "completed", "Message": "update completed"}),
        service("web-admin", 0, 0),
        service("api", 1, 2, {"State": "paused", "Message": f"update\npaused: {'task ' * 100}"}),
        {**service("agent", 1, 1), "Spec": {"Name": "agent", "TaskTemplate": {"PluginSpec": {"Name": SECRET}}}},
    ],
    "tasks": [
        *(task("web", number, "running") for number in range(3)),
        *(task("api", number, "failed", f"task: non-zero exit ({number})") for number in range(10, 17)),
        task("api", 17, "rejected", "No such image:\x1b[31m\n shop/api:1.2 " + "x" * 300),
        task("api", 18, "running"),
        task("api", 19, "pending", "no suitable node (insufficient resources on 1 node)"),
        task("web-admin", 20, "failed", "somebody else's"),
    ],
}
