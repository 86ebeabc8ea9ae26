"""What any cluster tells about groups, gathered for `klamm.groups.diagnosis`."""
