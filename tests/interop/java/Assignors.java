import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/**
 * Asks Kafka's own assignors. One JSON object per line on standard input:
 *
 *   {"assignor": "sticky",
 *    "topics": {"t": [["a"], ["b"]]},                        racks of the replicas of each partition
 *    "members": {"m1": {"subscription": "0003...", "instance": null}}}
 *
 * and one per line on standard output: {"m1": [["t", 0], ...], ...}, or {"error": "..."}.
 * Subscriptions arrive as the bytes a consumer would send, so the embedded protocol is compared as well.
 */
public class Assignors {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err); // whatever is logged must not end up among the answers
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            answers.println(answer(JSON.readTree(line)));
        }
    }

    private static ObjectNode answer(JsonNode question) {
        ObjectNode answer = JSON.createObjectNode();
        try {
            // A new assignor each time: the sticky ones remember the highest generation they have seen.
            Map<String, Assignment> assignments = assignor(question.get("assignor").asText())
                .assign(cluster(question.get("topics")), new GroupSubscription(members(question.get("members"))))
                .groupAssignment();
            for (Map.Entry<String, Assignment> entry : new TreeMap<>(assignments).entrySet()) {
                ArrayNode given = answer.putArray(entry.getKey());
                for (TopicPartition partition : entry.getValue().partitions()) {
                    given.addArray().add(partition.topic()).add(partition.partition());
                }
            }
        } catch (RuntimeException error) {
            answer.removeAll();
            answer.put("error", error.toString());
        }
        return answer;
    }

    private static ConsumerPartitionAssignor assignor(String name) {
        switch (name) {
            case "range": return new RangeAssignor();
            case "roundrobin": return new RoundRobinAssignor();
            case "sticky": return new StickyAssignor();
            case "cooperative-sticky": return new CooperativeStickyAssignor();
            default: throw new IllegalArgumentException("no such assignor: " + name);
        }
    }

    private static Cluster cluster(JsonNode topics) {
        Map<String, Node> nodes = new HashMap<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        topics.properties().forEach(topic -> {
            for (int number = 0; number < topic.getValue().size(); number++) {
                List<Node> replicas = new ArrayList<>();
                for (JsonNode rack : topic.getValue().get(number)) {
                    replicas.add(nodes.computeIfAbsent(
                        rack.asText(), name -> new Node(nodes.size(), "localhost", 9092, name)));
                }
                Node[] everywhere = replicas.toArray(new Node[0]);
                Node leader = replicas.isEmpty() ? null : replicas.get(0);
                partitions.add(new PartitionInfo(topic.getKey(), number, leader, everywhere, everywhere));
            }
        });
        return new Cluster("test", nodes.values(), partitions, Collections.emptySet(), Collections.emptySet());
    }

    private static Map<String, Subscription> members(JsonNode members) {
        Map<String, Subscription> subscriptions = new HashMap<>();
        members.properties().forEach(member -> {
            byte[] raw = bytes(member.getValue().get("subscription").asText());
            Subscription subscription = ConsumerProtocol.deserializeSubscription(ByteBuffer.wrap(raw));
            JsonNode instance = member.getValue().get("instance");
            subscription.setGroupInstanceId(
                instance == null || instance.isNull() ? Optional.empty() : Optional.of(instance.asText()));
            subscriptions.put(member.getKey(), subscription);
        });
        return subscriptions;
    }

    private static byte[] bytes(String hex) {
        byte[] raw = new byte[hex.length() / 2];
        for (int i = 0; i < raw.length; i++) {
            raw[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
        }
        return raw;
    }
}
