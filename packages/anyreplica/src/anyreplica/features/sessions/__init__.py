"""Sessions of handshake-protocol clients. Any replica reads a session from its id and can ask the session's client."""
