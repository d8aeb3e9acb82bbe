"""What can be set, by what it is about; `server.config` puts it together."""
