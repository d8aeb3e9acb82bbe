"""Traces by OpenTelemetry, if a collector is named: a span of each request, of each call, of each attempt of a job."""
