"""A process of the server: start, ready, drain, watchdog, log, and several replicas on one machine."""
