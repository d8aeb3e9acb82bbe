"""The program behind `make deploy`, which deploys the stack to a Docker Swarm."""
