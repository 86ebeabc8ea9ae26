"""What a broker does without being asked."""
