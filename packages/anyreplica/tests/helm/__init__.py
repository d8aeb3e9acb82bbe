"""Tests of the Helm chart, without a cluster."""
