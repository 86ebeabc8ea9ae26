# Compiled as it is: its records are tuples.
