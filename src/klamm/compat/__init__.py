"""klamm's client with the classes and calls of other libraries, for programs written for them.

Change the import, nothing else: `klamm.compat.kafka` for kafka-python, `klamm.compat.aiokafka`,
`klamm.compat.confluent_kafka`.
"""
