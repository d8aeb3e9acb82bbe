"""The command `anyreplica deploy`, which deploys the stack of this folder to a Docker Swarm."""

import argparse
import os
import sys
from collections.abc import Sequence

from anyreplica.deploy.deployment import DeploymentRefused, deploy, earlier_image, same_image
from anyreplica.deploy.running import DockerCommandError

_ABOUT = """\
Deploy the stack of a project of the template to the Docker Swarm of the current
Docker context, and wait until it serves.

Before the deployment starts, the program shows what will change. If OVERLAYS,
REPLICAS, WORKERS, MCP_COMPONENTS or a variable AUTOSCALE_… or …_SECRET is unset,
it keeps the value of the running stack. Give other variables again, such as PORT."""

_ENVIRONMENT = """\
environment variables:
  STACK           name of the stack (default: mcp-swarm)
  IMAGE           image of the replicas (default: mcp-swarm:latest)
  OVERLAYS        overlays of stack.yml, separated by spaces, such as
                  deploy/jobs.yml deploy/edge.yml; empty: none
  REPLICAS        number of replicas (default for a new stack: 3)
  WORKERS         number of workers (with deploy/jobs.yml; default: 2)
  AUTOSCALE_MIN, AUTOSCALE_MAX, AUTOSCALE_TARGET, AUTOSCALE_DOWN_SECONDS,
  AUTOSCALE_WORKERS, AUTOSCALE_WORKERS_MIN, AUTOSCALE_WORKERS_MAX
                  bounds of automatic scaling (with deploy/autoscale.yml)
  REPEAT_TOOLS    more tools that the edge proxy may safely call twice,
                  separated by spaces; it always includes the tools with
                  readOnlyHint or idempotentHint
  REQUEST_STATE_KEYS_SECRET, AUTH_TOKEN_SECRET, API_KEYS_SECRET,
  EDGE_PEM_SECRET, JOBS_URL_SECRET, METRICS_TOKEN_SECRET
                  names of other secrets that replace these
  ALLOW_DROP      security settings that the deployment may remove from the
                  stack, separated by spaces, such as AUTH_ENABLED RATE_LIMIT;
                  without it, such a deployment is refused
  DEPLOY_SECONDS  time limit for the deployment, in seconds (default: 600)
  DEPLOY_FLAGS    more flags for docker stack deploy

stack.yml and the overlays use more variables, such as PORT.

examples:
  OVERLAYS=deploy/jobs.yml REPLICAS=5 anyreplica deploy
  anyreplica deploy --rollback --dry-run
  API_KEYS_SECRET=api_keys_2 anyreplica deploy --same-image

exit codes:
  0  the stack serves; with --dry-run: nothing has changed
  1  docker failed or did not answer, Swarm paused the update or rolled it
     back, or the time limit passed
  2  refused; nothing has changed
"""


def main(arguments: Sequence[str]) -> int:
    """Deploy the stack and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="anyreplica deploy",
        description=_ABOUT,
        epilog=_ENVIRONMENT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    image = parser.add_mutually_exclusive_group()
    image.add_argument(
        "--rollback",
        dest="choose",
        action="store_const",
        const=earlier_image,
        help="deploy the image that the replicas had before their present one, or before the last deployment if it "
        "failed (make rollback)",
    )
    image.add_argument(
        "--same-image",
        dest="choose",
        action="store_const",
        const=same_image,
        help="deploy the image that the replicas have now, for example with other secrets (make redeploy)",
    )
    parser.add_argument("--dry-run", action="store_true", help="show what would change, and change nothing")
    options = parser.parse_args(arguments)
    stack = os.environ.get("STACK", "mcp-swarm")
    try:
        return 0 if deploy(stack, options.choose or _chosen_image, dry_run=options.dry_run) else 1
    except DeploymentRefused as error:
        print(error, file=sys.stderr)
        return 2
    except DockerCommandError as error:
        print(error, file=sys.stderr)
        return 1


def _chosen_image(*_: object) -> str:
    return os.environ.get("IMAGE", "mcp-swarm:latest")
