"""What was asked of topics, what brokers say of them, and the exact offsets that follow."""
