// One record there and back over SASL_SSL. Arguments: a JSON object with brokers, ca (a file), sasl, token, topic.
const fs = require("fs");
const { Kafka, logLevel } = require("kafkajs");

const { brokers, ca, sasl, token, topic } = JSON.parse(process.argv[2]);
if (token) sasl.oauthBearerProvider = async () => ({ value: token });
const kafka = new Kafka({
  clientId: "secured", brokers, sasl, ssl: { ca: [fs.readFileSync(ca, "utf-8")] },
  logLevel: logLevel.NOTHING, retry: { retries: 2 },
});

async function main() {
  const producer = kafka.producer();
  await producer.connect();
  await producer.send({ topic, messages: [{ value: "hello" }] });
  await producer.disconnect();
  const consumer = kafka.consumer({ groupId: `g-${topic}` });
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  const value = await new Promise((resolve, reject) => {
    consumer.run({ eachMessage: async ({ message }) => resolve(message.value.toString()) }).catch(reject);
  });
  console.log(value);
  await consumer.disconnect();
}

main().catch((error) => {
  console.log(`error: ${error.message}`);
  process.exit(1);
});
