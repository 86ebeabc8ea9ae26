import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;

/** The transactional producers of a client, by name. */
final class Transactions {
    private static final long DEADLINE_S = 30;

    private final Client client;
    private final Map<String, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();

    Transactions(Client client) {
        this.client = client;
    }

    void run(JsonNode command) throws Exception {
        String name = command.get("producer").asText();
        switch (command.get("do").asText()) {
            case "init_transactions" -> init(name, command.get("transactional_id").asText());
            case "begin_transaction" -> producers.get(name).beginTransaction();
            case "produce_in_transaction" -> {
                List<byte[]> values = new ArrayList<>();
                command.get("values").forEach(value -> values.add(Client.fromWire(value)));
                send(producers.get(name), command, values);
            }
            case "transfer" -> transfer(producers.get(name), command);
            case "commit_transaction" -> producers.get(name).commitTransaction();
            case "abort_transaction" -> producers.get(name).abortTransaction();
            case "close_producer" -> producers.remove(name).close(Duration.ofSeconds(DEADLINE_S));
            default -> throw new IllegalArgumentException("unknown command " + command);
        }
    }

    private void init(String name, String transactionalId) {
        Properties properties = client.properties();
        properties.put("transactional.id", transactionalId);
        properties.put("max.block.ms", TimeUnit.SECONDS.toMillis(DEADLINE_S));
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties);
        producers.put(name, producer);
        producer.initTransactions();
    }

    private static void send(KafkaProducer<byte[], byte[]> producer, JsonNode command, List<byte[]> values)
        throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (byte[] value : values) {
            sent.add(producer.send(new ProducerRecord<>(
                command.get("topic").asText(), command.get("partition").asInt(), null, value)));
        }
        for (Future<RecordMetadata> future : sent) {
            Client.await(future);
        }
    }

    private void transfer(KafkaProducer<byte[], byte[]> producer, JsonNode command) throws Exception {
        Properties properties = client.properties();
        properties.put("group.id", command.get("group").asText());
        properties.put("enable.auto.commit", "false");
        properties.put("auto.offset.reset", "earliest");
        properties.put("isolation.level", "read_committed");
        properties.put("max.poll.records", command.get("count").asText());
        List<byte[]> values = new ArrayList<>();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties)) {
            consumer.subscribe(List.of(command.get("source").asText()));
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(DEADLINE_S);
            while (values.size() < command.get("count").asInt() && System.nanoTime() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    values.add(record.value());
                }
            }
            send(producer, command, values);
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            for (TopicPartition partition : consumer.assignment()) {
                offsets.put(partition, new OffsetAndMetadata(consumer.position(partition)));
            }
            producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
        }
    }
}
