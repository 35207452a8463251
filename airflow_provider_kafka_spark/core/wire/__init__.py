"""What crosses a process border: the request and the report, events, failures, and how they are written."""
