"""One module per API: authorise, route, answer."""
