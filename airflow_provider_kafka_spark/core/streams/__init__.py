"""AvailableNow streams: what a checkpoint says, where the next run starts, and when it is delivered."""
