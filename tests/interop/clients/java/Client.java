import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The Java client behind the line protocol of ../serve.py. */
public final class Client {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final long DEADLINE_S = 30;

    private final String bootstrap;
    private final Admin admin;
    private final Transactions transactions = new Transactions(this);

    private Client(String bootstrap) {
        this.bootstrap = bootstrap;
        this.admin = Admin.create(properties());
    }

    Properties properties() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("client.id", "java");
        properties.put("key.serializer", ByteArraySerializer.class.getName());
        properties.put("value.serializer", ByteArraySerializer.class.getName());
        properties.put("key.deserializer", ByteArrayDeserializer.class.getName());
        properties.put("value.deserializer", ByteArrayDeserializer.class.getName());
        return properties;
    }

    static byte[] fromWire(JsonNode text) {
        return text.isNull() ? null : Base64.getDecoder().decode(text.asText());
    }

    private static String toWire(byte[] data) {
        return data == null ? null : Base64.getEncoder().encodeToString(data);
    }

    private static synchronized void tell(ObjectNode message) {
        System.out.println(message);
        System.out.flush();
    }

    static <T> T await(Future<T> future) throws Exception {
        return future.get(DEADLINE_S, TimeUnit.SECONDS);
    }

    private ObjectNode produce(JsonNode command) throws Exception {
        Properties properties = properties();
        properties.put("compression.type", command.get("compression").asText());
        properties.put("acks", command.get("acks").asText());
        properties.put("enable.idempotence", command.get("idempotent").asBoolean());
        properties.put("linger.ms", "5");
        properties.put("max.block.ms", "10000");
        if (command.has("max_bytes")) {
            properties.put("max.request.size", command.get("max_bytes").asInt());
        }
        if (command.has("batch_bytes")) {
            properties.put("batch.size", command.get("batch_bytes").asInt());
        }
        ArrayNode offsets = JSON.createArrayNode();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties)) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (JsonNode record : command.get("records")) {
                List<Header> headers = new ArrayList<>();
                for (JsonNode pair : record.get("headers")) {
                    headers.add(new RecordHeader(pair.get(0).asText(), fromWire(pair.get(1))));
                }
                sent.add(producer.send(new ProducerRecord<>(
                    command.get("topic").asText(),
                    command.get("partition").asInt(),
                    record.get("timestamp_ms").asLong(),
                    fromWire(record.get("key")),
                    fromWire(record.get("value")),
                    headers)));
            }
            for (Future<RecordMetadata> future : sent) {
                offsets.add(await(future).offset());
            }
        }
        return JSON.createObjectNode().set("offsets", offsets);
    }

    private static ObjectNode toJson(ConsumerRecord<byte[], byte[]> record) {
        ObjectNode node = JSON.createObjectNode();
        node.put("offset", record.offset());
        node.put("timestamp_ms", record.timestamp());
        node.put("key", toWire(record.key()));
        node.put("value", toWire(record.value()));
        ArrayNode headers = node.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(toWire(header.value()));
        }
        return node;
    }

    private ObjectNode consume(JsonNode command) {
        Properties properties = properties();
        properties.put("enable.auto.commit", "false");
        properties.put("auto.offset.reset", "none");
        properties.put("allow.auto.create.topics", "false");
        properties.put("fetch.max.wait.ms", "200");
        properties.put("isolation.level", command.path("isolation").asText("read_uncommitted"));
        if (command.has("max_bytes")) {
            properties.put("max.partition.fetch.bytes", command.get("max_bytes").asInt());
        }
        TopicPartition partition = partition(command);
        int count = command.get("count").asInt();
        ArrayNode records = JSON.createArrayNode();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties)) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, command.get("offset").asLong());
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(DEADLINE_S);
            while (records.size() < count && System.nanoTime() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    if (records.size() < count) {
                        records.add(toJson(record));
                    }
                }
            }
        }
        return JSON.createObjectNode().set("records", records);
    }

    private static TopicPartition partition(JsonNode command) {
        return new TopicPartition(command.get("topic").asText(), command.get("partition").asInt());
    }

    private ObjectNode administer(JsonNode command) throws Exception {
        ObjectNode answer = JSON.createObjectNode();
        String topic = command.get("topic").asText();
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        switch (command.get("do").asText()) {
            case "create_topic" -> {
                Map<String, String> configs = new HashMap<>();
                command.get("configs").properties().forEach(e -> configs.put(e.getKey(), e.getValue().asText()));
                NewTopic wanted = new NewTopic(topic, command.get("partitions").asInt(), (short) 1).configs(configs);
                await(admin.createTopics(List.of(wanted)).all());
            }
            case "delete_topic" -> await(admin.deleteTopics(List.of(topic)).all());
            case "create_partitions" -> await(admin.createPartitions(
                Map.of(topic, NewPartitions.increaseTo(command.get("total").asInt()))).all());
            case "describe_topic" -> answer.put("partitions",
                await(admin.describeTopics(List.of(topic)).allTopicNames()).get(topic).partitions().size());
            case "describe_config" -> answer.put("value",
                await(admin.describeConfigs(List.of(resource)).all())
                    .get(resource).get(command.get("name").asText()).value());
            case "alter_config" -> {
                ConfigEntry entry = new ConfigEntry(command.get("name").asText(), command.get("value").asText());
                await(admin.incrementalAlterConfigs(
                    Map.of(resource, List.of(new AlterConfigOp(entry, AlterConfigOp.OpType.SET)))).all());
            }
            case "offsets" -> {
                OffsetSpec spec = switch (command.get("at").asText()) {
                    case "earliest" -> OffsetSpec.earliest();
                    case "latest" -> OffsetSpec.latest();
                    case "max_timestamp" -> OffsetSpec.maxTimestamp();
                    default -> OffsetSpec.forTimestamp(command.get("at").asLong());
                };
                TopicPartition partition = partition(command);
                answer.put("offset", await(admin.listOffsets(Map.of(partition, spec)).all()).get(partition).offset());
            }
            case "delete_records" -> {
                TopicPartition partition = partition(command);
                RecordsToDelete before = RecordsToDelete.beforeOffset(command.get("before").asLong());
                answer.put("low_watermark", await(
                    admin.deleteRecords(Map.of(partition, before)).lowWatermarks().get(partition)).lowWatermark());
            }
            default -> throw new IllegalArgumentException("unknown command " + command);
        }
        return answer;
    }

    private void member(JsonNode command, BufferedReader lines) {
        Properties properties = properties();
        int sessionTimeoutMs = command.get("session_timeout_ms").asInt();
        Map<String, String> assignors = Map.of(
            "range", "org.apache.kafka.clients.consumer.RangeAssignor",
            "roundrobin", "org.apache.kafka.clients.consumer.RoundRobinAssignor",
            "sticky", "org.apache.kafka.clients.consumer.StickyAssignor",
            "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");
        properties.put("group.id", command.get("group").asText());
        properties.put("enable.auto.commit", "false");
        properties.put("auto.offset.reset", "earliest");
        properties.put("fetch.max.wait.ms", "200");
        String protocol = command.get("protocol").asText();
        properties.put("group.protocol", protocol);
        if (protocol.equals("classic")) {
            properties.put("session.timeout.ms", sessionTimeoutMs);
            properties.put("heartbeat.interval.ms", sessionTimeoutMs / 10);
            properties.put("partition.assignment.strategy", assignors.get(command.get("assignor").asText()));
        }
        if (!command.get("instance_id").isNull()) {
            properties.put("group.instance.id", command.get("instance_id").asText());
        }
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(properties)) {
            Thread waiter = new Thread(() -> {
                try {
                    lines.readLine(); // {"do": "stop"}, or the end of the input
                } catch (IOException e) {
                    System.err.println(e);
                }
                consumer.wakeup();
            });
            waiter.setDaemon(true);
            waiter.start();
            consumer.subscribe(List.of(command.get("topic").asText()), new Listener());
            while (true) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(500));
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    ObjectNode event = JSON.createObjectNode().put("event", "record");
                    tell(event.put("partition", record.partition()).put("offset", record.offset()));
                }
                if (!records.isEmpty()) {
                    commit(consumer);
                }
            }
        } catch (WakeupException e) {
            tell(JSON.createObjectNode().put("event", "left"));
        }
    }

    private static void commit(KafkaConsumer<byte[], byte[]> consumer) {
        try {
            consumer.commitSync();
        } catch (WakeupException e) {
            throw e;
        } catch (KafkaException e) {
            tell(JSON.createObjectNode().put("event", "commit_failed").put("message", e.toString()));
        }
    }

    private static final class Listener implements ConsumerRebalanceListener {
        private static void report(String what, Collection<TopicPartition> partitions) {
            ObjectNode event = JSON.createObjectNode().put("event", what);
            ArrayNode numbers = event.putArray("partitions");
            partitions.forEach(partition -> numbers.add(partition.partition()));
            tell(event);
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            report("assigned", partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            report("revoked", partitions);
        }
    }

    private ObjectNode answer(JsonNode command) {
        try {
            ObjectNode result = switch (command.get("do").asText()) {
                case "produce" -> produce(command);
                case "consume" -> consume(command);
                case "init_transactions", "begin_transaction", "produce_in_transaction", "transfer",
                    "commit_transaction", "abort_transaction", "close_producer" -> {
                    transactions.run(command);
                    yield JSON.createObjectNode();
                }
                default -> administer(command);
            };
            return JSON.createObjectNode().set("ok", result);
        } catch (Exception e) {
            Throwable cause = e instanceof ExecutionException ? e.getCause() : e;
            Errors error = Errors.forException(cause);
            ObjectNode refusal = JSON.createObjectNode().put("message", cause.toString());
            return error == Errors.UNKNOWN_SERVER_ERROR ? refusal.putNull("error") : refusal.put("error", error.code());
        }
    }

    public static void main(String[] arguments) throws Exception {
        Client client = new Client(arguments[0]);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode command = JSON.readTree(line);
            if (command.get("do").asText().equals("member")) {
                client.member(command, lines);
                break;
            }
            tell(client.answer(command));
        }
        client.admin.close();
    }
}
