"""The client's side of TLS and SASL: settings, the TLS layer of a connection, logins. No sockets."""
