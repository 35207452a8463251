"""A copy: its parameters, its plan, what is approved and submitted, and the check of what its job reports."""
