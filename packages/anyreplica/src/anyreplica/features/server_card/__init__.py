"""The feature *server card*: public documents with which clients and catalogs find the server."""
