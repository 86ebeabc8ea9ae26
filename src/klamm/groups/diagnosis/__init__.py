"""What is wrong with a group: rules over a snapshot, in order; the first one that applies is the verdict."""
