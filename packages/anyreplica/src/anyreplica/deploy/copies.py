"""The copies of an image that is in no registry: which nodes may lack theirs."""

from collections.abc import Collection

from anyreplica.deploy import image
from anyreplica.deploy.docker import docker
from anyreplica.deploy.tasks import SwarmTask


def warning(local: str, present: Collection[SwarmTask]) -> str:
    """Return the lines that tell the operator to copy an image to nodes; empty if all nodes have it.

    A node has the image if a task with it runs there, or if it is the node that this program talks to. Swarm has no
    list of the images of the other nodes. A drained node needs no image.

    Args:
        local: The image. The node that this program talks to has it.
        present: The tasks of the stack.

    Raises:
        DockerCommandError: Docker can't reach a manager of a Swarm.
    """
    having = {task.node for task in present if task.state == "running" and image.same(task.image, local)}
    form = "{{.ID}} {{.Self}} {{.Availability}} {{.Hostname}}"
    nodes = [line.split() for line in docker("node", "ls", "--format", form).splitlines()]
    unknown = [
        name
        for identity, here, availability, name in nodes
        if here != "true" and availability != "Drain" and identity not in having
    ]
    if not unknown:
        return ""
    return (
        f"The image {local} is not in a registry, and these nodes may not have it: {', '.join(unknown)}. Copy it to "
        "each of them that does not have it:\n"
        f"  docker save {local} | ssh NODE docker load"
    )
