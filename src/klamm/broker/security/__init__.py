"""Who may do what. Without an authorizer: everybody everything."""
