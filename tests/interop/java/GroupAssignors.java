import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * Asks the assignors of Kafka's group coordinator. One JSON object per line on standard input:
 *
 *   {"assignor": "uniform", "topics": {"t": 3},
 *    "members": {"a": {"topics": ["t"], "target": {"t": [0, 1]}, "instance": null}}}
 *
 * and one per line on standard output: {"a": {"t": [0, 1, 2]}, ...}, or {"error": "..."}.
 * Members arrive sorted, and are kept so; the id of a topic is its place among the names, small enough for a hash
 * set to be in that order as well. So an answer does not depend on the order of a hash map.
 */
public class GroupAssignors {
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
        Map<String, Uuid> ids = new LinkedHashMap<>();
        Map<Uuid, String> names = new HashMap<>();
        Map<Uuid, Integer> counts = new HashMap<>();
        Set<String> sorted = new TreeSet<>();
        question.get("topics").fieldNames().forEachRemaining(sorted::add);
        for (String name : sorted) {
            Uuid id = new Uuid(0, ids.size() + 1);
            ids.put(name, id);
            names.put(id, name);
            counts.put(id, question.get("topics").get(name).asInt());
        }
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        Set<Set<Uuid>> subscriptions = new HashSet<>();
        question.get("members").properties().forEach(entry -> {
            JsonNode member = entry.getValue();
            Set<Uuid> subscribed = new LinkedHashSet<>();
            member.get("topics").forEach(topic -> subscribed.add(ids.get(topic.asText())));
            subscriptions.add(subscribed);
            Map<Uuid, Set<Integer>> target = new LinkedHashMap<>();
            member.get("target").properties().forEach(share -> {
                Set<Integer> partitions = new LinkedHashSet<>();
                for (JsonNode partition : share.getValue()) {
                    partitions.add(partition.asInt());
                    owners.computeIfAbsent(ids.get(share.getKey()), id -> new HashMap<>())
                        .put(partition.asInt(), entry.getKey());
                }
                target.put(ids.get(share.getKey()), partitions);
            });
            JsonNode instance = member.get("instance");
            members.put(entry.getKey(), new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(),
                instance.isNull() ? Optional.empty() : Optional.of(instance.asText()),
                subscribed,
                new Assignment(Collections.unmodifiableMap(target))));
        });
        SubscriptionType type =
            subscriptions.size() > 1 ? SubscriptionType.HETEROGENEOUS : SubscriptionType.HOMOGENEOUS;
        SubscribedTopicDescriber topics = new SubscribedTopicDescriber() {
            public int numPartitions(Uuid id) {
                return counts.getOrDefault(id, -1);
            }

            public Set<String> racksForPartition(Uuid id, int partition) {
                return Set.of();
            }
        };
        ObjectNode answer = JSON.createObjectNode();
        try {
            Map<String, MemberAssignment> assigned = assignor(question.get("assignor").asText())
                .assign(new GroupSpecImpl(members, type, owners), topics).members();
            for (String member : members.keySet()) {
                ObjectNode share = answer.putObject(member);
                Map<String, Set<Integer>> byName = new TreeMap<>();
                if (assigned.containsKey(member)) {
                    assigned.get(member).partitions().forEach((id, partitions) ->
                        byName.put(names.get(id), new TreeSet<>(partitions)));
                }
                byName.forEach((name, partitions) -> {
                    if (!partitions.isEmpty()) {
                        ArrayNode listed = share.putArray(name);
                        partitions.forEach(listed::add);
                    }
                });
            }
        } catch (RuntimeException error) {
            answer.removeAll();
            answer.put("error", error.toString());
        }
        return answer;
    }

    private static ConsumerGroupPartitionAssignor assignor(String name) {
        switch (name) {
            case "range": return new RangeAssignor();
            case "uniform": return new UniformAssignor();
            default: throw new IllegalArgumentException("no such assignor: " + name);
        }
    }
}
