# Targets for a Docker Swarm.

DEPLOY_SECONDS ?= 600
.PHONY: deploy redeploy rollback undeploy

deploy redeploy rollback: export IMAGE := $(IMAGE)
deploy redeploy rollback: export STACK := $(STACK)
deploy redeploy rollback: export DEPLOY_FLAGS := $(DEPLOY_FLAGS)
deploy redeploy rollback: export DEPLOY_SECONDS := $(DEPLOY_SECONDS)

deploy: $(SERVES) ## deploy to the current Docker Swarm and wait until the stack serves (OVERLAYS=deploy/edge.yml, ARGS=--dry-run)
	@$(BIN)/python -m server deploy $(ARGS)

redeploy: $(SERVES) ## deploy again with the image that runs, for example with another secret
	@$(BIN)/python -m server deploy --same-image $(ARGS)

rollback: $(SERVES) ## deploy the image that the replicas had before their present one
	@$(BIN)/python -m server deploy --rollback $(ARGS)

undeploy: ## remove the stack
	@deploy/undeploy.sh $(STACK)
