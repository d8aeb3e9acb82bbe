"""A simulation of the autoscaler beside other ways to choose the number of replicas."""
