"""Access control. Without an authorizer everything is allowed."""
