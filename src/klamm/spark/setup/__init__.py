"""What Spark needs around it: a Java, a home, a session, what worker processes keep."""
