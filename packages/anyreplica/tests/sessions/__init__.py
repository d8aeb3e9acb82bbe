"""Tests of sessions in the handshake protocol and of requests to clients."""
