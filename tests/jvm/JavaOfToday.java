import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.quota.*;
import org.apache.kafka.common.resource.*;
import org.apache.kafka.common.serialization.*;

/**
 * A program of today on one broker: it calls every method of the admin client, produces in every mode and
 * consumes by both protocols. It writes a line for each thing done, `what TAB result`; in the end the methods of
 * the admin client that it did not call.
 */
public class JavaOfToday {
    static final long PATIENCE_S = 20;
    /** The records of the topic `paid`, and the committed ones of them. */
    static final int PAID = 14, COMMITTED = 9;
    static final Set<String> called = new TreeSet<>();
    static String bootstrap;
    static int sent;
    static Admin admin;

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        Admin real = Admin.create(Map.of("bootstrap.servers", bootstrap, "request.timeout.ms", "15000",
            "default.api.timeout.ms", "15000"));
        admin = noting(real);
        topics();
        configs();
        produce();
        transactions();
        consume();
        groups();
        offsetsAndRecords();
        cluster();
        security();
        ofOtherKinds();
        admin.close(Duration.ofSeconds(5));
        Set<String> all = Arrays.stream(Admin.class.getMethods())
            .filter(each -> !java.lang.reflect.Modifier.isStatic(each.getModifiers()))
            .map(Method::getName).collect(Collectors.toCollection(TreeSet::new));
        all.removeAll(called);
        say("not called", all);
        System.out.flush();
        System.exit(0);
    }

    /** The admin client, which notes the names of the methods that are called. */
    static Admin noting(Admin real) {
        InvocationHandler handler = (proxy, method, given) -> {
            called.add(method.getName());
            try {
                return method.invoke(real, given);
            } catch (InvocationTargetException error) {
                throw error.getCause();
            }
        };
        return (Admin) Proxy.newProxyInstance(
            Admin.class.getClassLoader(), new Class<?>[] {Admin.class}, handler);
    }

    static void topics() {
        say("createTopics", () -> {
            CreateTopicsResult made = admin.createTopics(List.of(
                new NewTopic("orders", 3, (short) 1),
                new NewTopic("compacted", Optional.of(1), Optional.empty())
                    .configs(Map.of("cleanup.policy", "compact")),
                new NewTopic("placed", Map.of(0, List.of(1), 1, List.of(1)))));
            return of(made.all()) + " " + of(made.numPartitions("orders")) + " "
                + of(made.replicationFactor("placed")) + " "
                + of(made.config("compacted")).get("cleanup.policy").value();
        });
        say("createTopics that is there", () -> of(admin.createTopics(
            List.of(new NewTopic("orders", 1, (short) 1))).all()));
        say("createTopics of a bad name", () -> of(admin.createTopics(
            List.of(new NewTopic("a b", 1, (short) 1))).all()));
        say("createTopics of too many replicas", () -> of(admin.createTopics(
            List.of(new NewTopic("many", 1, (short) 3))).all()));
        say("createTopics only checked", () -> of(admin.createTopics(
            List.of(new NewTopic("checked", 1, (short) 1)),
            new CreateTopicsOptions().validateOnly(true)).all()));
        say("listTopics", () -> of(admin.listTopics().names()).stream().sorted().toList());
        say("describeTopics", () -> of(admin.describeTopics(List.of("orders", "placed")).allTopicNames()));
        say("describeTopics, one partition a page", () -> of(admin.describeTopics(List.of("orders", "placed"),
            new DescribeTopicsOptions().partitionSizeLimitPerResponse(1)).allTopicNames()));
        say("describeTopics by id", () -> {
            Uuid id = of(admin.describeTopics(List.of("orders")).allTopicNames()).get("orders").topicId();
            return of(admin.describeTopics(TopicCollection.ofTopicIds(List.of(id))).allTopicIds()).values();
        });
        say("describeTopics that is not there", () -> of(admin.describeTopics(List.of("no")).allTopicNames()));
        say("describeTopics of an unknown id", () -> of(admin.describeTopics(
            TopicCollection.ofTopicIds(List.of(new Uuid(1, 2)))).allTopicIds()));
        say("createPartitions", () -> of(admin.createPartitions(
            Map.of("placed", NewPartitions.increaseTo(3))).all()));
        say("createPartitions, fewer", () -> of(admin.createPartitions(
            Map.of("placed", NewPartitions.increaseTo(1))).all()));
        say("deleteTopics by id", () -> {
            of(admin.createTopics(List.of(new NewTopic("gone", 1, (short) 1))).all());
            Uuid id = of(admin.describeTopics(List.of("gone")).allTopicNames()).get("gone").topicId();
            return of(admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all());
        });
        say("deleteTopics that is not there", () -> of(admin.deleteTopics(List.of("no")).all()));
        say("electLeaders", () -> of(admin.electLeaders(
            ElectionType.PREFERRED, Set.of(new TopicPartition("orders", 0))).partitions()));
        say("alterPartitionReassignments", () -> of(admin.alterPartitionReassignments(
            Map.of(new TopicPartition("placed", 0), Optional.of(new NewPartitionReassignment(List.of(1)))))
            .all()));
        say("alterPartitionReassignments, cancelled", () -> of(admin.alterPartitionReassignments(
            Map.of(new TopicPartition("placed", 0), Optional.empty())).all()));
        say("listPartitionReassignments", () -> of(admin.listPartitionReassignments().reassignments()));
    }

    static void configs() {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, "orders");
        ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, "1");
        ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, "set");
        ConfigResource metrics = new ConfigResource(ConfigResource.Type.CLIENT_METRICS, "subscribed");
        Map<ConfigResource, List<AlterConfigOp>> changes = new LinkedHashMap<>();
        changes.put(topic, List.of(set("retention.ms", "123456"), set("max.message.bytes", "2000000")));
        changes.put(broker, List.of(set("log.cleaner.backoff.ms", "14000")));
        changes.put(group, List.of(set("consumer.session.timeout.ms", "46000")));
        changes.put(metrics, List.of(set("interval.ms", "60000"), set("metrics", "org.apache.kafka.")));
        changes.forEach((resource, wanted) -> {
            say("incrementalAlterConfigs of " + resource.type(),
                () -> of(admin.incrementalAlterConfigs(Map.of(resource, wanted)).all()));
            say("describeConfigs of " + resource.type() + " changed",
                () -> until(found -> found.size() >= wanted.size(), () -> changed(resource)));
        });
        say("incrementalAlterConfigs, bad", () -> of(admin.incrementalAlterConfigs(
            Map.of(topic, List.of(set("retention.ms", "soon")))).all()));
        say("describeConfigs, keys of a topic", () -> of(admin.describeConfigs(List.of(topic)).all())
            .get(topic).entries().stream().map(each -> each.name() + "=" + each.value()).sorted().toList());
        say("describeConfigs, keys of a group", () -> of(admin.describeConfigs(List.of(group)).all())
            .get(group).entries().stream().map(each -> each.name() + "=" + each.value()).sorted().toList());
        say("listConfigResources", () -> of(admin.listConfigResources().all()).stream()
            .map(Object::toString).filter(each -> !each.contains("__")).sorted().toList());
        say("listConfigResources of groups", () -> of(admin.listConfigResources(
            Set.of(ConfigResource.Type.GROUP), new ListConfigResourcesOptions()).all()));
        say("listClientMetricsResources", () -> of(admin.listClientMetricsResources().all()));
    }

    static List<String> changed(ConfigResource resource) throws Exception {
        return of(admin.describeConfigs(List.of(resource)).all()).get(resource).entries().stream()
            .filter(each -> each.source().name().startsWith("DYNAMIC") || each.source().name().equals("GROUP_CONFIG"))
            .map(each -> each.name() + "=" + each.value() + " " + each.source()).sorted().toList();
    }

    static AlterConfigOp set(String name, String value) {
        return new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET);
    }

    static Properties client(Object... settings) {
        Properties all = new Properties();
        all.put("bootstrap.servers", bootstrap);
        all.put("key.serializer", StringSerializer.class.getName());
        all.put("value.serializer", StringSerializer.class.getName());
        all.put("key.deserializer", StringDeserializer.class.getName());
        all.put("value.deserializer", StringDeserializer.class.getName());
        for (int at = 0; at < settings.length; at += 2) all.put(settings[at], settings[at + 1].toString());
        return all;
    }

    static void produce() {
        for (String acks : List.of("0", "1", "all")) {
            for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
                say("produce acks " + acks + " " + codec, () -> {
                    Properties settings = client("acks", acks, "compression.type", codec, "linger.ms", 5,
                        "enable.idempotence", acks.equals("all"));
                    try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
                        List<java.util.concurrent.Future<RecordMetadata>> sent = new ArrayList<>();
                        for (int at = 0; at < 10; at++)
                            sent.add(producer.send(new ProducerRecord<>("orders", 0, "k" + at, "v" + at)));
                        producer.flush();
                        RecordMetadata last = sent.get(9).get(PATIENCE_S, TimeUnit.SECONDS);
                        return last.topic() + "-" + last.partition() + " "
                            + (acks.equals("0") ? "?" : "" + last.offset());
                    }
                });
                if (acks.equals("0")) {
                    sent += 10;
                    say("arrived " + codec, () -> arrived(sent));
                }
            }
        }
        say("produce by key", () -> {
            try (KafkaProducer<String, String> producer = new KafkaProducer<>(client())) {
                List<Integer> places = new ArrayList<>();
                for (String key : List.of("a", "b", "c", "d"))
                    places.add(producer.send(new ProducerRecord<>("orders", key, "v")).get().partition());
                return places + " " + producer.partitionsFor("orders").size();
            }
        });
        say("produce headers, nothing and a time", () -> {
            try (KafkaProducer<String, String> producer = new KafkaProducer<>(client())) {
                producer.send(new ProducerRecord<>("compacted", 0, 1_600_000_000_000L, "k", null,
                    List.of(new RecordHeader("h", new byte[] {1}), new RecordHeader("n", null)))).get();
                return end("compacted", 0);
            }
        });
        say("produce without a key into a compacted topic", () -> {
            try (KafkaProducer<String, String> producer = new KafkaProducer<>(client())) {
                return producer.send(new ProducerRecord<>("compacted", 0, null, "v")).get().offset();
            }
        });
        say("produce too much", () -> {
            Properties settings = client("max.request.size", 5_000_000, "buffer.memory", 50_000_000);
            try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
                return producer.send(new ProducerRecord<>("orders", 0, "k", "x".repeat(3_000_000))).get().offset();
            }
        });
        say("produce to nowhere", () -> {
            try (KafkaProducer<String, String> producer = new KafkaProducer<>(client("max.block.ms", 1500))) {
                return producer.send(new ProducerRecord<>("orders", 9, "k", "v")).get().offset();
            }
        });
        say("produce to a topic made by itself", () -> {
            try (KafkaProducer<String, String> producer = new KafkaProducer<>(client())) {
                return producer.send(new ProducerRecord<>("by-itself", "k", "v")).get().offset();
            }
        });
    }

    /** Waits for records that nobody acknowledges; how many there are. */
    static long arrived(int wanted) throws Exception {
        for (int tries = 0; tries < 200 && end("orders", 0) < wanted; tries++) Thread.sleep(50);
        return end("orders", 0);
    }

    static long end(String topic, int partition) throws Exception {
        TopicPartition tp = new TopicPartition(topic, partition);
        return of(admin.listOffsets(Map.of(tp, OffsetSpec.latest())).partitionResult(tp)).offset();
    }

    static void transactions() throws Exception {
        of(admin.createTopics(List.of(new NewTopic("paid", 2, (short) 1))).all());
        KafkaProducer<String, String> producer = new KafkaProducer<>(client("transactional.id", "payer"));
        say("initTransactions", () -> { producer.initTransactions(); return "done"; });
        long[] ended = {0};
        for (boolean commit : new boolean[] {true, false, true}) {
            // Two records and a marker in each partition.
            String ends = 3 * ++ended[0] + " " + 3 * ended[0];
            say("transaction, commit " + commit, () -> {
                producer.beginTransaction();
                for (int at = 0; at < 4; at++)
                    producer.send(new ProducerRecord<>("paid", at % 2, "k", (commit ? "paid " : "not ") + at));
                producer.flush();
                if (commit) producer.commitTransaction(); else producer.abortTransaction();
                return until(ends::equals, () -> end("paid", 0) + " " + end("paid", 1));
            });
        }
        say("sendOffsetsToTransaction", () -> {
            producer.beginTransaction();
            producer.send(new ProducerRecord<>("paid", 0, "k", "with offsets"));
            producer.sendOffsetsToTransaction(
                Map.of(new TopicPartition("orders", 0), new OffsetAndMetadata(7, "note")),
                new ConsumerGroupMetadata("transactional"));
            producer.commitTransaction();
            return until(found -> !found.isEmpty(), () -> of(admin.listConsumerGroupOffsets("transactional")
                .partitionsToOffsetAndMetadata()));
        });
        producer.beginTransaction();
        say("listTransactions", () -> {
            producer.send(new ProducerRecord<>("paid", 0, "k", "open")).get();
            return of(admin.listTransactions().all()).stream()
                .map(each -> each.transactionalId() + " " + each.state()).toList();
        });
        say("listTransactions by a pattern", () -> of(admin.listTransactions(
            new ListTransactionsOptions().filterOnTransactionalIdPattern("pay.*")).all()).size());
        say("listTransactions by a bad pattern", () -> of(admin.listTransactions(
            new ListTransactionsOptions().filterOnTransactionalIdPattern("(")).all()).size());
        say("describeTransactions", () -> {
            TransactionDescription found = of(admin.describeTransactions(List.of("payer")).description("payer"));
            return found.state() + " " + found.topicPartitions() + " " + found.transactionTimeoutMs()
                + " " + found.transactionStartTimeMs().isPresent();
        });
        say("describeTransactions, unknown", () -> of(admin.describeTransactions(List.of("no")).description("no")));
        say("describeProducers", () -> {
            TopicPartition tp = new TopicPartition("paid", 0);
            return of(admin.describeProducers(List.of(tp)).partitionResult(tp)).activeProducers().stream()
                .map(each -> each.lastSequence() + " " + each.currentTransactionStartOffset()).toList();
        });
        say("abortTransaction", () -> {
            TopicPartition tp = new TopicPartition("paid", 0);
            ProducerState state = of(admin.describeProducers(List.of(tp)).partitionResult(tp))
                .activeProducers().get(0);
            return of(admin.abortTransaction(new AbortTransactionSpec(
                tp, state.producerId(), (short) state.producerEpoch(),
                state.coordinatorEpoch().orElse(0))).all());
        });
        say("forceTerminateTransaction", () -> of(admin.forceTerminateTransaction("payer").result()));
        say("the terminated one commits", () -> { producer.commitTransaction(); return "done"; });
        producer.close(Duration.ZERO);
        say("fenceProducers", () -> of(admin.fenceProducers(List.of("payer", "nobody")).all()));
    }

    static List<String> values(ConsumerRecords<String, String> records) {
        List<String> found = new ArrayList<>();
        records.forEach(each -> found.add(each.value()));
        return found;
    }

    /** As many records as are wanted, or what there is when patience ends; sorted by partition and offset. */
    static String read(Consumer<String, String> consumer, int wanted) {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(8);
        TreeMap<String, Integer> counts = new TreeMap<>();
        int count = 0;
        while (count < wanted && System.nanoTime() < deadline) {
            for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(200))) {
                counts.merge(each.topic() + "-" + each.partition(), 1, Integer::sum);
                count++;
            }
        }
        return counts.toString();
    }

    static void consume() {
        for (String protocol : List.of("classic", "consumer")) {
            say("subscribe, " + protocol, () -> {
                Properties settings = group("all-" + protocol, protocol);
                try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
                    consumer.subscribe(List.of("orders", "paid"));
                    String found = read(consumer, 154 + PAID);
                    consumer.commitSync();
                    return found + " " + consumer.assignment().stream().map(Object::toString).sorted().toList()
                        + " " + consumer.committed(Set.of(new TopicPartition("orders", 0)))
                        + " " + consumer.groupMetadata().groupId();
                }
            });
            say("read committed, " + protocol, () -> {
                Properties settings = group("committed-" + protocol, protocol);
                settings.put("isolation.level", "read_committed");
                try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
                    consumer.subscribe(List.of("paid"));
                    return read(consumer, COMMITTED);
                }
            });
            say("a static member, " + protocol, () -> {
                Properties settings = group("static-" + protocol, protocol);
                settings.put("group.instance.id", "one");
                String found = "";
                for (int time = 0; time < 2; time++) {
                    try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
                        consumer.subscribe(List.of("paid"));
                        found += read(consumer, time == 0 ? PAID : 0);
                        consumer.commitSync();
                    }
                }
                return found;
            });
            say("by a duration, " + protocol, () -> {
                Properties settings = group("recent-" + protocol, protocol);
                settings.put("auto.offset.reset", "by_duration:PT1H");
                try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
                    consumer.subscribe(List.of("paid"));
                    return read(consumer, PAID);
                }
            });
            say("a pattern of Java, " + protocol, () -> {
                try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(group("java-" + protocol, protocol))) {
                    consumer.subscribe(Pattern.compile("pa.d"));
                    return read(consumer, PAID);
                }
            });
        }
        for (String assignor : List.of("uniform", "range", "nothing")) {
            say("the assignor " + assignor, () -> {
                Properties settings = group("by-" + assignor, "consumer");
                settings.put("group.remote.assignor", assignor);
                try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
                    consumer.subscribe(List.of("paid"));
                    return read(consumer, PAID);
                }
            });
        }
        for (String assignor : List.of("RangeAssignor", "RoundRobinAssignor", "StickyAssignor",
                "CooperativeStickyAssignor")) {
            say(assignor, () -> {
                Properties settings = group("by-" + assignor, "classic");
                settings.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer." + assignor);
                try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
                    consumer.subscribe(List.of("paid"));
                    return read(consumer, PAID);
                }
            });
        }
        for (String pattern : List.of("pa.d", "pa(", "nothing.*")) {
            say("the pattern " + pattern, () -> {
                try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(group("re2", "consumer"))) {
                    consumer.subscribe(new SubscriptionPattern(pattern));
                    return read(consumer, pattern.equals("pa.d") ? PAID : 0) + values(consumer.poll(Duration.ofSeconds(1)));
                }
            });
        }
        say("assign and seek", () -> {
            try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(client())) {
                TopicPartition tp = new TopicPartition("orders", 0);
                consumer.assign(List.of(tp));
                consumer.seek(tp, 148);
                String found = read(consumer, 2);
                return found + " " + consumer.position(tp) + " " + consumer.beginningOffsets(Set.of(tp)) + " "
                    + consumer.endOffsets(Set.of(tp)) + " " + consumer.offsetsForTimes(Map.of(tp, 5L)) + " "
                    + consumer.currentLag(tp) + " " + new TreeSet<>(consumer.listTopics().keySet()).size();
            }
        });
        say("a share consumer", () -> {
            try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(client("group.id", "share"))) {
                consumer.subscribe(List.of("paid"));
                return consumer.poll(Duration.ofSeconds(3)).count();
            }
        });
    }

    static Properties group(String id, String protocol) {
        Properties settings = client("group.id", id, "group.protocol", protocol, "auto.offset.reset", "earliest",
            "enable.auto.commit", "false");
        return settings;
    }

    static void groups() throws Exception {
        KafkaConsumer<String, String> classic = new KafkaConsumer<>(group("live-classic", "classic"));
        KafkaConsumer<String, String> modern = new KafkaConsumer<>(group("live-consumer", "consumer"));
        for (KafkaConsumer<String, String> each : List.of(classic, modern)) {
            each.subscribe(List.of("paid"));
            read(each, PAID);
            each.commitSync();
        }
        say("describeConsumerGroups", () -> until(
            found -> found.values().stream().allMatch(each -> each.groupState() == GroupState.STABLE),
            () -> of(admin.describeConsumerGroups(List.of("live-classic", "live-consumer")).all())));
        say("describeClassicGroups", () -> of(admin.describeClassicGroups(List.of("live-classic")).all()));
        say("describeClassicGroups of the other kind", () -> of(admin.describeClassicGroups(
            List.of("live-consumer")).all()));
        say("describeConsumerGroups, unknown", () -> of(admin.describeConsumerGroups(List.of("no")).all()));
        say("listGroups", () -> of(admin.listGroups().all()).stream().map(Object::toString).sorted().toList());
        say("listGroups of consumers", () -> of(admin.listGroups(ListGroupsOptions.forConsumerGroups()).all())
            .stream().map(GroupListing::groupId).sorted().toList());
        say("listConsumerGroups", () -> of(admin.listConsumerGroups().all()).stream()
            .map(Object::toString).sorted().toList());
        say("listConsumerGroupOffsets", () -> of(admin.listConsumerGroupOffsets("live-consumer")
            .partitionsToOffsetAndMetadata()));
        say("listConsumerGroupOffsets, several", () -> of(admin.listConsumerGroupOffsets(Map.of(
            "live-classic", new ListConsumerGroupOffsetsSpec(), "no", new ListConsumerGroupOffsetsSpec())).all()));
        say("alterConsumerGroupOffsets of one that lives", () -> of(admin.alterConsumerGroupOffsets(
            "live-consumer", Map.of(new TopicPartition("paid", 0), new OffsetAndMetadata(1))).all()));
        say("deleteConsumerGroupOffsets of one that lives", () -> of(admin.deleteConsumerGroupOffsets(
            "live-consumer", Set.of(new TopicPartition("paid", 0))).all()));
        say("deleteConsumerGroups that lives", () -> of(admin.deleteConsumerGroups(List.of("live-consumer")).all()));
        say("removeMembersFromConsumerGroup", () -> of(admin.removeMembersFromConsumerGroup(
            "live-classic", new RemoveMembersFromConsumerGroupOptions()).all()));
        classic.close();
        modern.close();
        say("alterConsumerGroupOffsets", () -> of(admin.alterConsumerGroupOffsets(
            "live-consumer", Map.of(new TopicPartition("paid", 0), new OffsetAndMetadata(1, "moved"))).all()));
        say("alterConsumerGroupOffsets of a new group", () -> of(admin.alterConsumerGroupOffsets(
            "made", Map.of(new TopicPartition("paid", 0), new OffsetAndMetadata(1))).all()));
        say("listConsumerGroupOffsets, altered", () -> of(admin.listConsumerGroupOffsets("live-consumer")
            .partitionsToOffsetAndMetadata()));
        say("deleteConsumerGroupOffsets", () -> of(admin.deleteConsumerGroupOffsets(
            "live-consumer", Set.of(new TopicPartition("paid", 0))).all()));
        say("deleteConsumerGroups", () -> of(admin.deleteConsumerGroups(List.of("live-consumer")).all()));
        say("deleteConsumerGroups, unknown", () -> of(admin.deleteConsumerGroups(List.of("no")).all()));
    }

    static void offsetsAndRecords() {
        TopicPartition tp = new TopicPartition("orders", 0);
        Map<String, OffsetSpec> specs = new LinkedHashMap<>();
        specs.put("earliest", OffsetSpec.earliest());
        specs.put("latest", OffsetSpec.latest());
        specs.put("maxTimestamp", OffsetSpec.maxTimestamp());
        specs.put("forTimestamp", OffsetSpec.forTimestamp(5));
        specs.put("earliestLocal", OffsetSpec.earliestLocal());
        specs.put("latestTiered", OffsetSpec.latestTiered());
        specs.put("earliestPendingUpload", OffsetSpec.earliestPendingUpload());
        specs.forEach((name, spec) -> say("listOffsets " + name, () -> {
            ListOffsetsResult.ListOffsetsResultInfo found = of(admin.listOffsets(Map.of(tp, spec)).partitionResult(tp));
            // Several records may have been sent in the last millisecond.
            boolean last = name.equals("maxTimestamp") && found.offset() >= 140;
            return (last ? "of the last" : "" + found.offset()) + " " + (found.timestamp() > 0) + " "
                + found.leaderEpoch();
        }));
        say("listOffsets committed", () -> of(admin.listOffsets(Map.of(tp, OffsetSpec.latest()),
            new ListOffsetsOptions(IsolationLevel.READ_COMMITTED)).partitionResult(tp)).offset());
        say("listOffsets of nowhere", () -> {
            TopicPartition no = new TopicPartition("no", 0);
            return of(admin.listOffsets(Map.of(no, OffsetSpec.latest()),
                new ListOffsetsOptions().timeoutMs(2000)).partitionResult(no));
        });
        say("deleteRecords", () -> of(admin.deleteRecords(Map.of(tp, RecordsToDelete.beforeOffset(10)))
            .lowWatermarks().get(tp)).lowWatermark());
        say("deleteRecords beyond the end", () -> of(admin.deleteRecords(
            Map.of(tp, RecordsToDelete.beforeOffset(99999))).all()));
    }

    static void cluster() {
        say("describeCluster", () -> {
            DescribeClusterResult found = admin.describeCluster(
                new DescribeClusterOptions().includeAuthorizedOperations(true).includeFencedBrokers(true));
            return of(found.nodes()) + " " + of(found.controller()) + " " + of(found.clusterId()).length() + " "
                + new TreeSet<>(of(found.authorizedOperations()));
        });
        say("describeLogDirs", () -> of(admin.describeLogDirs(List.of(1)).allDescriptions()).get(1).values().stream()
            .map(each -> each.error() + " " + each.isCordoned() + " " + shown(each.replicaInfos().entrySet()
                .stream().filter(entry -> entry.getKey().topic().equals("placed")).collect(Collectors.toMap(
                    entry -> entry.getKey().toString(), Map.Entry::getValue)))).toList());
        say("describeReplicaLogDirs", () -> of(admin.describeReplicaLogDirs(
            List.of(new TopicPartitionReplica("placed", 0, 1))).all()).size());
        say("alterReplicaLogDirs", () -> of(admin.alterReplicaLogDirs(
            Map.of(new TopicPartitionReplica("placed", 0, 1), "/not/there")).all()));
        say("describeFeatures", () -> {
            FeatureMetadata found = of(admin.describeFeatures().featureMetadata());
            return new TreeMap<>(found.finalizedFeatures()) + " " + new TreeMap<>(found.supportedFeatures());
        });
        for (short level : new short[] {1, 2, 9}) {
            say("updateFeatures transaction.version " + level, () -> of(admin.updateFeatures(Map.of(
                "transaction.version", new FeatureUpdate(level, level == 1
                    ? FeatureUpdate.UpgradeType.SAFE_DOWNGRADE : FeatureUpdate.UpgradeType.UPGRADE)),
                new UpdateFeaturesOptions()).all()));
            // A level that there is not is refused, and the last one stays.
            int expected = Math.min(level, 2);
            say("the level of transaction.version", () -> until(found -> found.maxVersionLevel() == expected,
                () -> of(admin.describeFeatures().featureMetadata()).finalizedFeatures().get("transaction.version")));
        }
        say("describeMetadataQuorum", () -> of(admin.describeMetadataQuorum().quorumInfo()).leaderId());
        say("addRaftVoter", () -> of(admin.addRaftVoter(7, new Uuid(1, 2), Set.of()).all()));
        say("removeRaftVoter", () -> of(admin.removeRaftVoter(7, new Uuid(1, 2)).all()));
        say("unregisterBroker", () -> of(admin.unregisterBroker(77).all()));
        say("unregisterController", () -> of(admin.unregisterController(77).all()));
        say("clientInstanceId", () -> admin.clientInstanceId(Duration.ofSeconds(2)).toString().length());
        say("registerMetricForSubscription", () -> {
            var metric = admin.metrics().values().iterator().next();
            admin.registerMetricForSubscription((org.apache.kafka.common.metrics.KafkaMetric) metric);
            admin.unregisterMetricFromSubscription((org.apache.kafka.common.metrics.KafkaMetric) metric);
            return "done";
        });
    }

    static void security() {
        AclBinding rule = new AclBinding(new ResourcePattern(ResourceType.TOPIC, "orders", PatternType.LITERAL),
            new AccessControlEntry("User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW));
        say("createAcls", () -> of(admin.createAcls(List.of(rule)).all()));
        say("describeAcls", () -> until(found -> !found.isEmpty(),
            () -> of(admin.describeAcls(AclBindingFilter.ANY).values())));
        say("deleteAcls", () -> of(admin.deleteAcls(List.of(rule.toFilter())).all()));
        ClientQuotaEntity alice = new ClientQuotaEntity(Map.of(ClientQuotaEntity.CLIENT_ID, "alice"));
        say("alterClientQuotas", () -> of(admin.alterClientQuotas(List.of(new ClientQuotaAlteration(
            alice, List.of(new ClientQuotaAlteration.Op("producer_byte_rate", 1e9))))).all()));
        say("describeClientQuotas", () -> until(found -> !found.isEmpty(),
            () -> of(admin.describeClientQuotas(ClientQuotaFilter.all()).entities())));
        say("alterClientQuotas of an unknown kind", () -> of(admin.alterClientQuotas(List.of(new ClientQuotaAlteration(
            alice, List.of(new ClientQuotaAlteration.Op("nothing", 1.0))))).all()));
        say("alterUserScramCredentials", () -> of(admin.alterUserScramCredentials(List.of(
            new UserScramCredentialUpsertion("alice", new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096),
                "secret"))).all()));
        say("describeUserScramCredentials", () -> until(found -> !found.isEmpty(),
            () -> of(admin.describeUserScramCredentials().all())));
        say("describeUserScramCredentials, unknown", () -> of(admin.describeUserScramCredentials(List.of("no")).all()));
        say("createDelegationToken", () -> of(admin.createDelegationToken().delegationToken()));
        say("renewDelegationToken", () -> of(admin.renewDelegationToken(new byte[] {1}).expiryTimestamp()));
        say("expireDelegationToken", () -> of(admin.expireDelegationToken(new byte[] {1}).expiryTimestamp()));
        say("describeDelegationToken", () -> of(admin.describeDelegationToken().delegationTokens()));
    }

    static void ofOtherKinds() {
        TopicPartition tp = new TopicPartition("paid", 0);
        say("describeShareGroups", () -> of(admin.describeShareGroups(List.of("share")).all()).keySet());
        say("listShareGroupOffsets", () -> of(admin.listShareGroupOffsets(
            Map.of("share", new ListShareGroupOffsetsSpec())).all()).keySet());
        say("alterShareGroupOffsets", () -> of(admin.alterShareGroupOffsets("share", Map.of(tp, 0L)).all()));
        say("deleteShareGroupOffsets", () -> of(admin.deleteShareGroupOffsets("share", Set.of("paid")).all()));
        say("deleteShareGroups", () -> of(admin.deleteShareGroups(List.of("share")).all()));
        say("describeStreamsGroups", () -> of(admin.describeStreamsGroups(List.of("streams")).all()));
        say("listStreamsGroupOffsets", () -> of(admin.listStreamsGroupOffsets(
            Map.of("streams", new ListStreamsGroupOffsetsSpec())).all()));
        say("alterStreamsGroupOffsets", () -> of(admin.alterStreamsGroupOffsets(
            "streams", Map.of(tp, new OffsetAndMetadata(1))).all()));
        say("deleteStreamsGroupOffsets", () -> of(admin.deleteStreamsGroupOffsets("streams", Set.of(tp)).all()));
        say("deleteStreamsGroups", () -> of(admin.deleteStreamsGroups(List.of("streams")).all()));
    }

    static <T> T of(KafkaFuture<T> future) throws Exception {
        return future.get(PATIENCE_S, TimeUnit.SECONDS);
    }

    /** The answer that is expected, or the last one: a change reaches the broker a little after it is acknowledged. */
    static <T> T until(Predicate<T> expected, Callable<T> question) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_S);
        while (true) {
            T found = question.call();
            if (expected.test(found) || System.nanoTime() > deadline) return found;
            Thread.sleep(50);
        }
    }

    static void say(String what, Callable<?> step) {
        String result;
        try {
            result = shown(step.call());
        } catch (Throwable error) {
            Throwable cause = error;
            while (cause.getCause() != null && (cause instanceof ExecutionException || cause instanceof KafkaException
                    && cause.getClass() == KafkaException.class)) cause = cause.getCause();
            result = cause.getClass().getSimpleName() + ": " + cause.getMessage();
        }
        say(what, result);
    }

    static void say(String what, Object result) {
        System.out.println(what + "\t" + String.valueOf(result).replace("\n", " ").replace("\t", " "));
        System.out.flush();
    }

    /** Maps and sets in the order of their entries. */
    static String shown(Object value) {
        if (value instanceof Map<?, ?> map) {
            return map.entrySet().stream().map(each -> each.getKey() + "=" + shown(each.getValue())).sorted()
                .toList().toString();
        }
        if (value instanceof Set<?> set) return set.stream().map(JavaOfToday::shown).sorted().toList().toString();
        return String.valueOf(value);
    }
}
