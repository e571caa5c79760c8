import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.*;

/**
 * Clients of one user, who is removed while they are connected: at a listener where sessions end soon, and at one
 * where they do not. It writes `connected`, waits for a line, and writes a line for each, `who TAB what it heard`.
 */
public class RemovedUser {
    static final long PATIENCE_MS = 20_000;
    static final String TOPIC = "orders";

    public static void main(String[] arguments) throws Exception {
        Properties given = new Properties();
        try (Reader file = Files.newBufferedReader(Path.of(arguments[0]))) {
            given.load(file);
        }
        String soon = arguments[1], never = arguments[2];
        Map<String, Callable<?>> clients = new LinkedHashMap<>();
        clients.put("producer", producer(given, soon));
        clients.put("admin", admin(given, soon));
        clients.put("consumer", consumer(given, soon));
        Map<String, Callable<?>> staying = new LinkedHashMap<>();
        staying.put("producer that stays", producer(given, never));
        staying.put("admin that stays", admin(given, never));
        for (Map<String, Callable<?>> all : List.of(clients, staying))
            for (Callable<?> each : all.values())
                each.call();
        System.out.println("connected");
        System.in.read();
        for (Map.Entry<String, Callable<?>> each : clients.entrySet())
            say(each.getKey(), untilRefused(each.getValue()));
        for (Map.Entry<String, Callable<?>> each : staying.entrySet())
            say(each.getKey(), heard(each.getValue()));
        say("admin that comes", untilRefused(admin(given, never)));
        say("producer that comes", untilRefused(producer(given, never)));
        System.out.flush();
        System.exit(0);
    }

    static Callable<?> producer(Properties given, String bootstrap) {
        Producer<byte[], byte[]> producer = new KafkaProducer<>(
            at(given, bootstrap), new ByteArraySerializer(), new ByteArraySerializer());
        return () -> producer.send(new ProducerRecord<>(TOPIC, 0, null, new byte[1])).get();
    }

    static Callable<?> admin(Properties given, String bootstrap) {
        Admin admin = Admin.create(at(given, bootstrap));
        return () -> admin.listTopics().names().get();
    }

    static Callable<?> consumer(Properties given, String bootstrap) {
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(
            at(given, bootstrap), new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.assign(List.of(new TopicPartition(TOPIC, 0)));
        consumer.seekToBeginning(consumer.assignment());
        return () -> consumer.poll(Duration.ofMillis(100));
    }

    static Properties at(Properties given, String bootstrap) {
        Properties found = new Properties();
        found.putAll(given);
        found.put("bootstrap.servers", bootstrap);
        return found;
    }

    /** What a client hears in the end, or that it is still in. */
    static String untilRefused(Callable<?> client) throws Exception {
        long ends = System.currentTimeMillis() + PATIENCE_MS;
        String heard;
        while ((heard = heard(client)).equals("in") && System.currentTimeMillis() < ends)
            Thread.sleep(20);
        return heard;
    }

    static String heard(Callable<?> client) {
        try {
            client.call();
            return "in";
        } catch (Exception error) {
            Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
            return cause.getClass().getSimpleName() + ": " + cause.getMessage();
        }
    }

    static void say(String who, String what) {
        System.out.println(who + "\t" + what);
    }
}
