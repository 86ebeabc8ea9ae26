"""The consumer protocol (KIP-848): the coordinator assigns, and members reconcile one by one.

Members, targets and assignments are records. `remembered` has them and the state that they build, `records`
their bytes. `heartbeat` decides, with `subscription` (when the epoch of the group rises), `assigning` (the
target) and `reconciliation` (one member's steps towards it). Transient are sessions and timers:
`membership`.
"""
