# Targets for a Docker Swarm.

DEPLOY_SECONDS ?= 600
.PHONY: deploy rollback undeploy

deploy rollback: export IMAGE := $(IMAGE)
deploy rollback: export STACK := $(STACK)
deploy rollback: export DEPLOY_FLAGS := $(DEPLOY_FLAGS)
deploy rollback: export DEPLOY_SECONDS := $(DEPLOY_SECONDS)

deploy: $(SERVES) ## deploy to the current Docker Swarm and wait until the stack serves (OVERLAYS=deploy/edge.yml)
	@$(BIN)/python -m server deploy

rollback: $(SERVES) ## deploy the image that the replicas had before their present one
	@$(BIN)/python -m server deploy --rollback

undeploy: ## remove the stack
	docker stack rm $(STACK)
	@deploy/gone.sh $(STACK)
