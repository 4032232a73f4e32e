// The kafkajs row of the client matrix. Gzip comes with the client, snappy with
// its plugin in plain JavaScript; the others need native code.
const { CompressionCodecs, CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = require('kafkajs')

CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')

const PARTITIONS = 4
const RECORDS = 400
const TIMEOUT = 60000

if (process.argv.length !== 3) {
  console.error('usage: main.js HOST:PORT')
  process.exit(2)
}
const run = Math.random().toString(16).slice(2, 10)
const topic = `kafkajs-${run}`
const group = `kafkajs-group-${run}`
const kafka = new Kafka({ clientId: 'kafkajs-client', brokers: [process.argv[2]], logLevel: logLevel.NOTHING })
const admin = kafka.admin()

const value = i => `value ${i}, long enough to be worth compressing, twice`
const pause = ms => new Promise(done => setTimeout(done, ms))

function expect(ok, what) {
  if (!ok) throw new Error(typeof what === 'string' ? what : JSON.stringify(what))
}

async function until(what, look) {
  const deadline = Date.now() + TIMEOUT
  while (!(await look())) {
    expect(Date.now() < deadline, typeof what === 'string' ? what : what())
    await pause(50)
  }
}

const batch = (n, partitions = 1) =>
  [...Array(n).keys()].map(i => ({ key: `key-${i}`, value: value(i), partition: i % partitions }))

async function create(name, numPartitions = 1) {
  return admin.createTopics({
    waitForLeaders: true,
    topics: [{ topic: name, numPartitions, configEntries: [{ name: 'retention.ms', value: '3600000' }] }],
  })
}

async function send(name, messages, options = {}, producerOptions = {}) {
  const producer = kafka.producer({ allowAutoTopicCreation: false, ...producerOptions })
  await producer.connect()
  try {
    return await producer.send({ topic: name, messages, acks: -1, ...options })
  } finally {
    await producer.disconnect()
  }
}

// consume reads as a member of a group until n messages came, then leaves.
async function consume(groupId, name, n, commit) {
  const consumer = kafka.consumer({ groupId, maxWaitTimeInMs: 500 })
  const got = []
  await consumer.connect()
  try {
    await consumer.subscribe({ topics: [name], fromBeginning: true })
    await consumer.run({
      autoCommit: false,
      eachBatch: async ({ batch }) => {
        for (const m of batch.messages) {
          if (got.length < n) got.push({ ...m, partition: batch.partition })
        }
      },
    })
    await until(() => `${got.length} of ${n} messages came`, () => got.length >= n)
    if (commit) {
      const ends = new Map()
      for (const m of got) ends.set(m.partition, Number(m.offset) + 1)
      await consumer.commitOffsets([...ends].map(([partition, offset]) => ({ topic: name, partition, offset: String(offset) })))
    }
  } finally {
    await consumer.disconnect()
  }
  return got
}

async function roundTrip(name, options, producerOptions) {
  const t = `kafkajs-${name}-${run}`
  await create(t)
  await send(t, batch(RECORDS), options, producerOptions)
  const got = await consume(`kafkajs-${name}-${run}`, t, RECORDS)
  got.forEach((m, i) => {
    const ok = m.offset === String(i) && m.key.toString() === `key-${i}` && m.value.toString() === value(i)
    expect(ok, `message ${i} came back at ${m.offset} as ${m.key} ${m.value}`)
  })
  await admin.deleteTopics({ topics: [t] })
}

// member stays in a group; shares() is how many partitions it has.
async function member(groupId) {
  const consumer = kafka.consumer({ groupId, maxWaitTimeInMs: 500, heartbeatInterval: 500 })
  let held = 0
  consumer.on(consumer.events.GROUP_JOIN, e => {
    held = Object.values(e.payload.memberAssignment).reduce((n, parts) => n + parts.length, 0)
  })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({ eachMessage: async () => {} })
  return {
    shares: () => held,
    leave: async () => {
      held = 0
      await consumer.disconnect()
    },
  }
}

const steps = {
  'create-topic': async () => {
    await admin.connect()
    expect(await create(topic, PARTITIONS), 'not created')
    expect(!(await create(topic, PARTITIONS)), 'made twice')
  },
  produce: async () => {
    await send(topic, batch(RECORDS, PARTITIONS))
    const ends = await admin.fetchTopicOffsets(topic)
    expect(ends.every(o => o.low === '0' && o.high === String(RECORDS / PARTITIONS)), ends)
  },
  'keys-headers-nulls': async () => {
    const t = `kafkajs-shapes-${run}`
    await create(t)
    const headers = { h: ['', 'x'], é: Buffer.from([0, 255]) }
    await send(t, [{ key: 'k', value: null }, { key: null, value: 'v' }, { key: '', value: Buffer.from([0, 255, 10]), headers }])
    const got = await consume(`kafkajs-shapes-${run}`, t, 3)
    expect(got[0].value === null && got[1].key === null, 'nulls came back as something else')
    expect(got[2].key.length === 0 && got[2].value.equals(Buffer.from([0, 255, 10])), 'bytes came back changed')
    const h = got[2].headers
    expect(h.h.length === 2 && h.h[0].length === 0 && h.h[1].toString() === 'x' && h.é.equals(headers.é), h)
    await admin.deleteTopics({ topics: [t] })
  },
  'codec-gzip': () => roundTrip('gzip', { compression: CompressionTypes.GZIP }),
  'codec-snappy': () => roundTrip('snappy', { compression: CompressionTypes.Snappy }),
  idempotent: () => roundTrip('idempotent', {}, { idempotent: true }),
  'group-commit-resume': async () => {
    const seen = []
    for (let half = 0; half < 2; half++) {
      for (const m of await consume(group, topic, RECORDS / 2, true)) seen.push(`${m.partition}/${m.offset}`)
    }
    expect(seen.length === RECORDS && new Set(seen).size === RECORDS, `${seen.length} messages, ${new Set(seen).size} different`)
  },
  rebalance: async () => {
    const id = `kafkajs-rebalance-${run}`
    const a = await member(id)
    await until(() => `one member has ${a.shares()}`, () => a.shares() === PARTITIONS)
    const b = await member(id)
    await until(() => `two members have ${a.shares()} and ${b.shares()}`, () => a.shares() === PARTITIONS / 2 && b.shares() === PARTITIONS / 2)
    await b.leave()
    await until(() => `the one left has ${a.shares()}`, () => a.shares() === PARTITIONS)
    await a.leave()
    await admin.deleteGroups([id])
  },
  'out-of-range': async () => {
    // A position beyond the end: the client must be told, and starts over.
    const id = `kafkajs-range-${run}`
    const partitions = [...Array(PARTITIONS).keys()].map(partition => ({ partition, offset: '1000' }))
    await admin.setOffsets({ groupId: id, topic, partitions })
    const got = await consume(id, topic, RECORDS)
    expect(new Set(got.map(m => `${m.partition}/${m.offset}`)).size === RECORDS, `${got.length} messages`)
  },
  'describe-groups': async () => {
    const { groups } = await admin.listGroups()
    expect(groups.some(g => g.groupId === group), `${group} is not listed`)
    const described = await admin.describeGroups([group])
    expect(described.groups[0].state === 'Empty', described.groups[0])
    const [offsets] = await admin.fetchOffsets({ groupId: group, topics: [topic] })
    expect(offsets.partitions.length === PARTITIONS, offsets)
    const total = offsets.partitions.reduce((n, p) => n + Number(p.offset), 0)
    expect(total === RECORDS, offsets)
    await admin.resetOffsets({ groupId: group, topic, earliest: true })
    const [reset] = await admin.fetchOffsets({ groupId: group, topics: [topic], resolveOffsets: true })
    expect(reset.partitions.every(p => p.offset === '0'), reset)
    await admin.deleteGroups([group])
  },
  configs: async () => {
    const resources = [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries: [{ name: 'retention.ms', value: '86400000' }] }]
    await admin.alterConfigs({ validateOnly: false, resources })
    const got = await admin.describeConfigs({ includeSynonyms: true, resources: [{ type: ConfigResourceTypes.TOPIC, name: topic }] })
    const entry = got.resources[0].configEntries.find(e => e.configName === 'retention.ms')
    expect(entry.configValue === '86400000' && entry.configSynonyms.length > 0, entry)
  },
  cluster: async () => {
    const c = await admin.describeCluster()
    expect(c.brokers.some(b => b.nodeId === c.controller) && c.clusterId, c)
  },
  'grow-and-trim': async () => {
    await admin.createPartitions({ topicPartitions: [{ topic, count: PARTITIONS + 2 }] })
    await until('no new partitions', async () => {
      const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
      return topics[0].partitions.length === PARTITIONS + 2 && topics[0].partitions.every(p => p.partitionErrorCode === 0 && p.leader >= 0)
    })
    await until('the new partitions do not answer', () => admin.fetchTopicOffsets(topic).then(() => true, () => false))
    await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '10' }] })
    const offsets = await admin.fetchTopicOffsets(topic)
    expect(offsets.find(o => o.partition === 0).low === '10', offsets)
    const past = await admin.fetchTopicOffsetsByTimestamp(topic, 1000)
    expect(past.find(o => o.partition === 1).offset === '0', past)
  },
  delete: async () => {
    await admin.deleteTopics({ topics: [topic] })
    await until('still listed', async () => !(await admin.listTopics()).includes(topic))
    await admin.disconnect()
  },
}

async function main() {
  console.log('version', require('kafkajs/package.json').version)
  let code = 0
  for (const [name, step] of Object.entries(steps)) {
    const start = Date.now()
    const took = () => `(${((Date.now() - start) / 1000).toFixed(2)}s)`
    let timer
    const late = new Promise((_, fail) => {
      timer = setTimeout(() => fail(new Error('not done after 90 s')), 90000)
    })
    try {
      await Promise.race([step(), late])
      console.log(`PASS ${name} ${took()}`)
    } catch (e) {
      code = 1
      console.log(`FAIL ${name} ${took()}: ${String(e.message).replace(/\n/g, '; ')}`)
    }
    clearTimeout(timer)
  }
  process.exit(code)
}

main()
