import java.util.*;
import java.util.stream.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.*;
import org.apache.kafka.common.*;

/**
 * Divides partitions as Kafka's own client does. Reads one problem a line, tab-separated:
 *
 *   assignor  topic=racks|racks|...;...   member=topics/rack/instance/generation/owned;...
 *
 * where racks are letters, topics are joined by commas, and owned is topic:partition joined by commas.
 * Writes one line of member=topic:partition,... joined by semicolons.
 */
public class JavaAssignors {
    public static void main(String[] arguments) throws Exception {
        try (Scanner lines = new Scanner(System.in)) {
            while (lines.hasNextLine()) System.out.println(divide(lines.nextLine().split("\t", -1)));
        }
    }

    private static String divide(String[] problem) {
        Map<String, Node> nodes = new TreeMap<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        for (String topic : problem[1].split(";")) {
            String[] parts = topic.split("=", -1);
            int number = 0;
            for (String racks : parts[1].split("\\|", -1)) {
                Node[] replicas = racks.chars().mapToObj(c -> String.valueOf((char) c))
                    .map(rack -> nodes.computeIfAbsent(rack, r -> new Node(r.charAt(0), "h", 1, r)))
                    .toArray(Node[]::new);
                partitions.add(new PartitionInfo(parts[0], number++, null, replicas, replicas));
            }
        }
        Cluster cluster = new Cluster("c", nodes.values(), partitions, Set.of(), Set.of());
        Map<String, Subscription> members = new HashMap<>();
        for (String member : problem[2].split(";")) {
            String[] parts = member.split("=", -1);
            String[] fields = parts[1].split("/", -1);
            List<TopicPartition> owned = Arrays.stream(fields[4].split(",")).filter(t -> !t.isEmpty())
                .map(t -> new TopicPartition(t.split(":")[0], Integer.parseInt(t.split(":")[1])))
                .collect(Collectors.toList());
            Subscription subscription = new Subscription(List.of(fields[0].split(",")), null, owned,
                Integer.parseInt(fields[3]), fields[1].isEmpty() ? Optional.empty() : Optional.of(fields[1]));
            if (!fields[2].isEmpty()) subscription.setGroupInstanceId(Optional.of(fields[2]));
            members.put(parts[0], subscription);
        }
        Map<String, Assignment> divided =
            assignor(problem[0]).assign(cluster, new GroupSubscription(members)).groupAssignment();
        return new TreeMap<>(divided).entrySet().stream()
            .map(e -> e.getKey() + "=" + e.getValue().partitions().stream()
                .map(tp -> tp.topic() + ":" + tp.partition()).sorted().collect(Collectors.joining(",")))
            .collect(Collectors.joining(";"));
    }

    private static ConsumerPartitionAssignor assignor(String name) {
        switch (name) {
            case "range": return new RangeAssignor();
            case "roundrobin": return new RoundRobinAssignor();
            default: return new CooperativeStickyAssignor();
        }
    }
}
