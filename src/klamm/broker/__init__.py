"""Sockets, wiring, routes: where everything meets."""
