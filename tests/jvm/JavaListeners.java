import java.util.*;
import kafka.server.KafkaConfig;

/**
 * What Kafka says to a broker's configuration. Reads one a line, key=value pairs separated by tabs;
 * writes one line each: the text of the refusal, or OK.
 */
public class JavaListeners {
    public static void main(String[] arguments) throws Exception {
        try (Scanner lines = new Scanner(System.in)) {
            while (lines.hasNextLine()) System.out.println(answer(lines.nextLine()));
        }
    }

    private static String answer(String line) {
        Properties settings = new Properties();
        settings.put("zookeeper.connect", "127.0.0.1:2181");
        for (String setting : line.split("\t")) {
            String[] parts = setting.split("=", 2);
            settings.put(parts[0], parts[1]);
        }
        try {
            KafkaConfig.fromProps(settings, false);
            return "OK";
        } catch (Exception refused) {
            return refused.getMessage().replace("requirement failed: ", "");
        }
    }
}
