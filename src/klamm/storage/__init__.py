"""Partition logs and the cluster's memory, behind two small interfaces."""
