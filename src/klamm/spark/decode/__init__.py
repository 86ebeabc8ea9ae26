"""The coordinators' own topics as typed tables: option `decode` of the source."""
