"""What tests of klamm's own parts share: brokers without sockets and threads, whose parts a test can call.

Tests of code that uses Kafka have `klamm.testing`; so do ours that look at a broker from outside.
"""
