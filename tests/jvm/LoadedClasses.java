import java.nio.file.Path;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;

/** Loads every class of the class path, for a JVM that is told to archive what it has loaded. */
class LoadedClasses {
    public static void main(String[] arguments) throws Exception {
        ClassLoader loader = ClassLoader.getSystemClassLoader();
        for (String place : System.getProperty("java.class.path").split(":")) {
            try (JarFile jar = new JarFile(Path.of(place).toFile())) {
                for (JarEntry entry : (Iterable<JarEntry>) jar.stream()::iterator) {
                    load(entry.getName(), loader);
                }
            }
        }
    }

    private static void load(String entry, ClassLoader loader) {
        if (!entry.endsWith(".class") || entry.contains("-")) {
            return; // no class of its own: META-INF/versions, module-info, package-info
        }
        try {
            Class.forName(entry.replace(".class", "").replace('/', '.'), false, loader);
        } catch (ClassNotFoundException | LinkageError wantsWhatIsNotThere) {
            // A plug-in for a library that nobody uses here.
        }
    }
}
