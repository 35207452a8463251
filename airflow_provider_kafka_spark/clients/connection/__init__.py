"""The files of a connection's login, and the failures of its brokers."""
