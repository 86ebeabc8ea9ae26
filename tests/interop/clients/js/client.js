// kafkajs behind the line protocol of ../serve.py.
'use strict'

const readline = require('node:readline')
const kafkajs = require('kafkajs')
const Batch = require('kafkajs/src/consumer/batch')
const Cluster = require('kafkajs/src/cluster')
const socketFactory = require('kafkajs/src/network/socketFactory')
const snappy = require('kafkajs-snappy')
const lz4 = require('lz4-napi')
const zstd = require('@bokuweb/zstd-wasm')

const { AssignerProtocol, Kafka, CompressionTypes, CompressionCodecs, ConfigResourceTypes, logLevel } = kafkajs

CompressionCodecs[CompressionTypes.Snappy] = snappy
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async encoder => lz4.compressFrame(encoder.buffer),
  decompress: async buffer => lz4.decompressFrame(buffer),
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async encoder => Buffer.from(zstd.compress(encoder.buffer)),
  decompress: async buffer => Buffer.from(zstd.decompress(buffer)),
})
const COMPRESSIONS = { none: 0, gzip: 1, snappy: 2, lz4: 3, zstd: 4 }
const DEADLINE_MS = 30000
const ISOLATION = { read_uncommitted: 0, read_committed: 1 }

const kafka = new Kafka({
  clientId: 'kafkajs',
  brokers: process.argv[2].split(","),
  logLevel: logLevel.NOTHING,
  retry: { retries: 2 },
})

const toWire = data => (data === null || data === undefined ? null : Buffer.from(data).toString('base64'))
const fromWire = text => (text === null ? null : Buffer.from(text, 'base64'))
const tell = message => process.stdout.write(JSON.stringify(message) + '\n')

async function withAdmin(work) {
  const admin = kafka.admin()
  await admin.connect()
  try {
    return await work(admin)
  } finally {
    await admin.disconnect()
  }
}

function toHeaders(pairs) {
  const headers = {}
  for (const [name, value] of pairs) {
    const data = fromWire(value)
    if (name in headers) headers[name] = [].concat(headers[name], data)
    else headers[name] = data
  }
  return headers
}

function fromHeaders(headers) {
  const pairs = []
  for (const [name, values] of Object.entries(headers || {})) {
    for (const value of Array.isArray(values) ? values : [values]) pairs.push([name, toWire(value)])
  }
  return pairs
}

const commands = {
  async produce(command) {
    // kafkajs insists on acks=all for idempotent producers, and sends one batch per call of send().
    const producer = kafka.producer({
      idempotent: command.idempotent,
      maxInFlightRequests: command.idempotent ? 1 : 5,
      allowAutoTopicCreation: false,
    })
    await producer.connect()
    try {
      const offsets = []
      const step = command.batch_records || command.records.length
      for (let start = 0; start < command.records.length; start += step) {
        const messages = command.records.slice(start, start + step).map(record => ({
          partition: command.partition,
          key: fromWire(record.key),
          value: fromWire(record.value),
          headers: toHeaders(record.headers),
          timestamp: String(record.timestamp_ms),
        }))
        const [sent] = await producer.send({
          topic: command.topic,
          acks: command.acks === 'all' ? -1 : command.acks,
          compression: COMPRESSIONS[command.compression],
          messages,
        })
        if (sent) messages.forEach((_, index) => offsets.push(Number(sent.baseOffset) + index))
      }
      return { offsets }
    } finally {
      await producer.disconnect()
    }
  },

  // kafkajs has no consumer without a group, so reading by offset speaks through its broker object, which is
  // what its consumer uses to fetch: decoding, decompression, the requests on the wire and the filter of aborted
  // records are the library's.
  async consume(command) {
    const connection = new Cluster({
      logger: kafka.logger(),
      socketFactory: socketFactory(),
      brokers: process.argv[2].split(","),
      clientId: 'kafkajs',
      connectionTimeout: 5000,
      requestTimeout: DEADLINE_MS,
      metadataMaxAge: 300000,
      allowAutoTopicCreation: false,
      retry: { retries: 2 },
    })
    await connection.connect()
    try {
      await connection.addTargetTopic(command.topic)
      const leaders = connection.findLeaderForPartitions(command.topic, [command.partition])
      const broker = await connection.findBroker({ nodeId: Object.keys(leaders)[0] })
      const records = []
      let next = command.offset
      const deadline = Date.now() + DEADLINE_MS
      while (records.length < command.count && Date.now() < deadline) {
        const answer = await broker.fetch({
          maxWaitTime: 200,
          minBytes: 1,
          maxBytes: 52428800,
          isolationLevel: ISOLATION[command.isolation || 'read_uncommitted'],
          topics: [{
            topic: command.topic,
            partitions: [{
              partition: command.partition,
              fetchOffset: next,
              maxBytes: command.max_bytes || 1048576,
            }],
          }],
        })
        const [{ partitions: [partition] }] = answer.responses
        const batch = new Batch(command.topic, next, partition)
        if (!batch.isEmptyIncludingFiltered()) next = Number(batch.lastOffset()) + 1
        for (const message of batch.messages) {
          if (records.length < command.count) {
            records.push({
              offset: Number(message.offset),
              timestamp_ms: Number(message.timestamp),
              key: toWire(message.key),
              value: toWire(message.value),
              headers: fromHeaders(message.headers),
            })
          }
        }
      }
      return { records }
    } finally {
      await connection.disconnect()
    }
  },

  create_topic: command => withAdmin(async admin => {
    const created = await admin.createTopics({
      waitForLeaders: false,
      topics: [{
        topic: command.topic,
        numPartitions: command.partitions,
        replicationFactor: 1,
        configEntries: Object.entries(command.configs).map(([name, value]) => ({ name, value })),
      }],
    })
    // kafkajs swallows exactly this error and answers false.
    if (!created) throw Object.assign(new Error('the topic exists'), { code: 36 })
    return {}
  }),

  delete_topic: command => withAdmin(async admin => {
    await admin.deleteTopics({ topics: [command.topic] })
    return {}
  }),

  create_partitions: command => withAdmin(async admin => {
    await admin.createPartitions({ topicPartitions: [{ topic: command.topic, count: command.total }] })
    return {}
  }),

  describe_topic: command => withAdmin(async admin => {
    const { topics } = await admin.fetchTopicMetadata({ topics: [command.topic] })
    return { partitions: topics[0].partitions.length }
  }),

  describe_config: command => withAdmin(async admin => {
    const { resources } = await admin.describeConfigs({
      resources: [{ type: ConfigResourceTypes.TOPIC, name: command.topic, configNames: [command.name] }],
    })
    return { value: resources[0].configEntries[0].configValue }
  }),

  alter_config: command => withAdmin(async admin => {
    await admin.alterConfigs({
      resources: [{
        type: ConfigResourceTypes.TOPIC,
        name: command.topic,
        configEntries: [{ name: command.name, value: command.value }],
      }],
    })
    return {}
  }),

  offsets: command => withAdmin(async admin => {
    const wanted = ({ partition }) => partition === command.partition
    if (command.at === 'earliest' || command.at === 'latest') {
      const offsets = (await admin.fetchTopicOffsets(command.topic)).find(wanted)
      return { offset: Number(command.at === 'earliest' ? offsets.low : offsets.high) }
    }
    const offsets = await admin.fetchTopicOffsetsByTimestamp(command.topic, command.at)
    return { offset: Number(offsets.find(wanted).offset) }
  }),

  delete_records: command => withAdmin(async admin => {
    await admin.fetchTopicOffsets(command.topic) // loads the metadata that the next call needs
    await admin.deleteTopicRecords({
      topic: command.topic,
      partitions: [{ partition: command.partition, offset: String(command.before) }],
    })
    return { low_watermark: command.before }
  }),
}

Object.assign(commands, require('./transactions')(kafka))

function codeOf(error) {
  for (let e = error; e; e = e.cause || e.originalError || (e.errors && e.errors[0])) {
    if (typeof e.code === 'number') return e.code
  }
  return null
}

// kafkajs knows only an assignor of its own name. This one has a name and a result that the other libraries share.
const rangeAssigner = ({ cluster }) => ({
  name: 'range',
  version: 0,
  protocol: ({ topics }) => ({
    name: 'range',
    metadata: AssignerProtocol.MemberMetadata.encode({ version: 0, topics, userData: Buffer.alloc(0) }),
  }),
  async assign({ members, topics }) {
    const ids = members.map(({ memberId }) => memberId).sort()
    const assignments = ids.map(() => ({}))
    for (const topic of topics) {
      const partitions = cluster.findTopicPartitionMetadata(topic).map(({ partitionId }) => partitionId).sort((a, b) => a - b)
      const each = Math.floor(partitions.length / ids.length)
      const more = partitions.length % ids.length
      let start = 0
      ids.forEach((_, index) => {
        const end = start + each + (index < more ? 1 : 0)
        assignments[index][topic] = partitions.slice(start, end)
        start = end
      })
    }
    return ids.map((memberId, index) => ({
      memberId,
      memberAssignment: AssignerProtocol.MemberAssignment.encode({
        version: 0,
        assignment: assignments[index],
        userData: Buffer.alloc(0),
      }),
    }))
  },
})

async function beAMember(command, stopped) {
  const consumer = kafka.consumer({
    groupId: command.group,
    sessionTimeout: command.session_timeout_ms,
    rebalanceTimeout: 10000,
    heartbeatInterval: Math.floor(command.session_timeout_ms / 10),
    maxWaitTimeInMs: 200,
    allowAutoTopicCreation: false,
    partitionAssigners: [command.assignor === 'range' ? rangeAssigner : kafkajs.PartitionAssigners.roundRobin],
  })
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    tell({ event: 'assigned', partitions: payload.memberAssignment[command.topic] || [] })
  })
  consumer.on(consumer.events.REBALANCING, () => tell({ event: 'revoked', partitions: null }))
  await consumer.connect()
  await consumer.subscribe({ topics: [command.topic], fromBeginning: true })
  await consumer.run({
    autoCommit: true,
    autoCommitThreshold: 1,
    eachMessage: async ({ partition, message }) => {
      tell({ event: 'record', partition, offset: Number(message.offset) })
    },
  })
  await stopped
  await consumer.disconnect()
  tell({ event: 'left' })
  process.exit(0)
}

async function main() {
  await zstd.init()
  const lines = readline.createInterface({ input: process.stdin })
  let stop
  const stopped = new Promise(resolve => { stop = resolve })
  let last = Promise.resolve()
  lines.on('line', line => {
    const command = JSON.parse(line)
    if (command.do === 'stop') return stop()
    if (command.do === 'member') {
      beAMember(command, stopped).catch(error => {
        tell({ event: 'error', message: String(error) })
        process.exit(1)
      })
      return
    }
    last = last.then(() => commands[command.do](command)).then(
      ok => tell({ ok }),
      error => tell({ error: codeOf(error), message: String(error) }),
    )
  })
}

main()
