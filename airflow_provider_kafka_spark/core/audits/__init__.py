"""The audit of a past copy: where to look, what was found, and what is said of it."""
