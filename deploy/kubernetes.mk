# Targets for Kubernetes.

MANIFESTS ?= build/k8s.yaml
.PHONY: k8s

k8s: ## write the Helm chart as plain manifests for Kubernetes (HELM_FLAGS="--values my.yaml" changes its values)
	@NAME=$(NAME) IMAGE=$(IMAGE) deploy/manifests.sh $(MANIFESTS) $(HELM_FLAGS)

ifeq ($(wildcard stack.yml),)
.PHONY: deploy
deploy:
	@echo "This project has no files for a Swarm. For Kubernetes: make k8s" >&2; exit 2
endif
