"""Partition logs and cluster metadata, behind two small interfaces."""
