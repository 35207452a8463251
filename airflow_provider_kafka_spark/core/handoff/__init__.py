"""What crosses to the driver in addition to request and report: events, failures, files and secrets."""
