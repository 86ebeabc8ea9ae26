"""Access control: what each API needs, and who decides. Without an authorizer everything is allowed."""
