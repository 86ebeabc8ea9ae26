'use strict'

// The commands on transactional producers, by name.
module.exports = kafka => {
  const producers = {} // name -> { producer, transaction }

  const send = (transaction, command, values) => transaction.send({
    topic: command.topic,
    messages: values.map(value => ({ partition: command.partition, value })),
  })

  const end = async (command, how) => {
    const held = producers[command.producer]
    await held.transaction[how]()
    held.transaction = null
    return {}
  }

  return {
    // kafkajs gets its producer id with its first transaction: that one is opened here, and begun later.
    async init_transactions(command) {
      const producer = kafka.producer({
        transactionalId: command.transactional_id,
        idempotent: true,
        maxInFlightRequests: 1,
      })
      await producer.connect()
      producers[command.producer] = { producer, transaction: null }
      producers[command.producer].transaction = await producer.transaction()
      return {}
    },

    async begin_transaction(command) {
      const held = producers[command.producer]
      held.transaction = held.transaction || await held.producer.transaction()
      return {}
    },

    async produce_in_transaction(command) {
      const values = command.values.map(value => Buffer.from(value, 'base64'))
      await send(producers[command.producer].transaction, command, values)
      return {}
    },

    async transfer(command) {
      const { transaction } = producers[command.producer]
      const consumer = kafka.consumer({ groupId: command.group, maxWaitTimeInMs: 200, readUncommitted: false })
      await consumer.connect()
      try {
        await consumer.subscribe({ topics: [command.source], fromBeginning: true })
        const read = []
        await new Promise((resolve, reject) => {
          consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
          consumer.run({
            autoCommit: false,
            eachMessage: async ({ partition, message }) => {
              if (read.length < command.count) read.push({ partition, message })
              if (read.length === command.count) resolve()
            },
          }).catch(reject)
        })
        await send(transaction, command, read.map(({ message }) => message.value))
        const next = {}
        for (const { partition, message } of read) next[partition] = String(Number(message.offset) + 1)
        const partitions = Object.entries(next).map(([partition, offset]) => ({ partition: Number(partition), offset }))
        // kafkajs sends the group's id alone, not the member and its generation.
        await transaction.sendOffsets({
          consumerGroupId: command.group,
          topics: [{ topic: command.source, partitions }],
        })
      } finally {
        await consumer.disconnect()
      }
      return {}
    },

    commit_transaction: command => end(command, 'commit'),
    abort_transaction: command => end(command, 'abort'),

    async close_producer(command) {
      const { producer } = producers[command.producer]
      delete producers[command.producer]
      await producer.disconnect()
      return {}
    },
  }
}
