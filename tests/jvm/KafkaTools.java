import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Kafka's tools one after the other in one JVM. Reads one run a line: the class of the tool and its arguments,
 * separated by the character 31. Writes one line of exit code, standard output and standard error, both in base64.
 *
 * A tool ends a run by Exit.exit, and some catch what that throws and exit once more: the first code counts, and what
 * was printed until then.
 */
public class KafkaTools {
    private static final PrintStream ANSWERS = System.out;
    private static final ByteArrayOutputStream OUT = new ByteArrayOutputStream(), ERR = new ByteArrayOutputStream();
    private static String answer;

    public static void main(String[] arguments) throws Exception {
        System.setOut(new PrintStream(OUT, true));
        System.setErr(new PrintStream(ERR, true));
        Exit.setExitProcedure((code, message) -> {
            end(code);
            throw new RuntimeException("exit " + code);
        });
        try (Scanner lines = new Scanner(System.in, StandardCharsets.UTF_8)) {
            while (lines.hasNextLine()) run(lines.nextLine().split("\u001f", -1));
        }
    }

    private static void run(String[] line) throws Exception {
        OUT.reset();
        ERR.reset();
        answer = null;
        try {
            String[] arguments = Arrays.copyOfRange(line, 1, line.length);
            Class.forName(line[0]).getMethod("main", String[].class).invoke(null, (Object) arguments);
            end(0);
        } catch (java.lang.reflect.InvocationTargetException thrown) {
            thrown.getCause().printStackTrace();
            end(1);
        }
        ANSWERS.println(answer);
    }

    private static void end(int code) {
        if (answer == null) answer = code + "\t" + text(OUT) + "\t" + text(ERR);
    }

    private static String text(ByteArrayOutputStream printed) {
        return Base64.getEncoder().encodeToString(printed.toByteArray());
    }
}
