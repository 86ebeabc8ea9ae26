"""What several tests share: a protocol client, a loop on virtual time, a broker in a jar."""
