"""What is done with each record: filters, expressions, other names and ids, and where rejected records go."""
