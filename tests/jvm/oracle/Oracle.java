import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Stream;

/**
 * Apache Kafka's own serialization, of several releases side by side, asked line by line.
 *
 * <p>Arguments: the folder with the compiled classes, then {@code release=folder of jars} for each release.
 * A question is {@code release TAB operation TAB class TAB version TAB payload}; see {@link Converter} for the
 * operations. The answer is {@code ok TAB result} or {@code error TAB reason}. The process ends with its input.
 */
public final class Oracle {
    private final Map<String, Function<String[], String>> converters = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        Oracle oracle = new Oracle();
        for (int i = 1; i < arguments.length; i++) {
            String[] release = arguments[i].split("=", 2);
            oracle.load(release[0], Path.of(arguments[0]), Path.of(release[1]));
        }
        oracle.answer();
    }

    /** Each release lives in a class loader of its own, so that their equally named classes never meet. */
    @SuppressWarnings("unchecked")
    private void load(String release, Path classes, Path jars) throws Exception {
        List<URL> places = new ArrayList<>(List.of(classes.toUri().toURL()));
        try (Stream<Path> files = Files.list(jars)) {
            for (Path jar : (Iterable<Path>) files.filter(file -> file.toString().endsWith(".jar"))::iterator) {
                places.add(jar.toUri().toURL());
            }
        }
        ClassLoader loader = new URLClassLoader(places.toArray(new URL[0]), ClassLoader.getPlatformClassLoader());
        Object converter = loader.loadClass("Converter").getDeclaredConstructor().newInstance();
        converters.put(release, (Function<String[], String>) converter);
    }

    private void answer() throws IOException {
        BufferedReader questions =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            answers.println(answer(line.split("\t", 5)));
            answers.flush();
        }
    }

    private String answer(String[] words) {
        try {
            return "ok\t" + converters.get(words[0]).apply(words);
        } catch (RuntimeException | LinkageError problem) {
            return "error\t" + problem.toString().replaceAll("\\s+", " ");
        }
    }
}
