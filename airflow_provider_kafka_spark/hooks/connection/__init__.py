"""What a login needs from this machine's disk, and what brokers say when it fails."""
