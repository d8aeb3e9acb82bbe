"""The feature *console*: a web page to try the server and to see its replicas."""
