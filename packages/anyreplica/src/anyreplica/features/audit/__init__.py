"""The audit log: one JSON entry per call. A chain of hashes reveals removed and changed entries."""
