"""The group coordinator, one module per API."""
