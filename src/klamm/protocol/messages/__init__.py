"""One version-free module per API; `klamm.protocol.codec` turns them into bytes and back."""
