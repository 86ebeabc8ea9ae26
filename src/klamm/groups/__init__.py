"""What can be concluded about a consumer group from what any cluster tells: pure functions, used by broker,
client, command line and Spark alike.
"""
