# Closures, compiled as they are.
