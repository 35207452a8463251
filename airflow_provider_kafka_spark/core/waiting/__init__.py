"""What sensors and watchers wait for."""
