"""Agent frameworks and other clients, each of which talks to three replicas."""
