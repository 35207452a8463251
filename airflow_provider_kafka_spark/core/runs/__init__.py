"""Runs of a task: their names, which driver may write for a run, and which earlier deliveries count."""
