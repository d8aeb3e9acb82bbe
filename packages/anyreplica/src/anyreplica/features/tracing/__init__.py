"""OpenTelemetry traces, if the settings name a collector: spans of requests, of calls and of attempts of jobs."""
