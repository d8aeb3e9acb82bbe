"""The process of a replica: start, ready, drain, stop, watchdog, log, and several replicas on one machine."""
