import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.function.Function;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Turns JSON into a message's bytes and back, with the converters that Kafka generates for each message.
 *
 * <ul>
 *   <li>{@code write CLASS VERSION JSON}: the bytes, in hexadecimal digits.
 *   <li>{@code read CLASS VERSION BYTES}: the JSON, a tab, and the bytes that Kafka writes of what it has read.
 *       The JSON says of record batches only how many bytes they are; the bytes have all of it.
 * </ul>
 */
public final class Converter implements Function<String[], String> {
    private final ObjectMapper json =
        JsonMapper.builder().enable(JsonWriteFeature.ESCAPE_NON_ASCII).build();
    private final HexFormat hex = HexFormat.of();
    private final Map<String, Schema> schemas = new HashMap<>();

    @Override
    public String apply(String[] words) {
        try {
            Schema schema = schema(words[2]);
            short version = Short.parseShort(words[3]);
            switch (words[1]) {
                case "write":
                    return hex.formatHex(bytes(schema.fromJson(json.readTree(words[4]), version), version));
                case "read":
                    Message message = read(schema, hex.parseHex(words[4]), version);
                    String text = json.writeValueAsString(schema.toJson(message, version));
                    return text + "\t" + hex.formatHex(bytes(message, version));
                default:
                    throw new IllegalArgumentException("no operation " + words[1]);
            }
        } catch (InvocationTargetException problem) {
            throw new IllegalStateException(problem.getCause());
        } catch (ReflectiveOperationException | JsonProcessingException problem) {
            throw new IllegalArgumentException(problem);
        }
    }

    private Schema schema(String name) throws ReflectiveOperationException {
        Schema schema = schemas.get(name);
        if (schema == null) {
            schema = new Schema(name);
            schemas.put(name, schema);
        }
        return schema;
    }

    private static byte[] bytes(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        if (buffer.hasRemaining()) {
            throw new IllegalStateException(buffer.remaining() + " bytes fewer than the size said");
        }
        return buffer.array();
    }

    private static Message read(Schema schema, byte[] bytes, short version)
        throws ReflectiveOperationException {
        ByteBuffer buffer = ByteBuffer.wrap(bytes);
        Message message = schema.create();
        message.read(new ByteBufferAccessor(buffer), version);
        if (buffer.hasRemaining()) {
            throw new IllegalStateException(buffer.remaining() + " bytes are left");
        }
        return message;
    }

    /** A generated message class with its generated converter. */
    private static final class Schema {
        private final Class<?> message;
        private final Method read;
        private final Method write;

        Schema(String name) throws ReflectiveOperationException {
            ClassLoader loader = Converter.class.getClassLoader();
            message = loader.loadClass(name);
            Class<?> converter = loader.loadClass(name + "JsonConverter");
            read = converter.getMethod("read", JsonNode.class, short.class);
            write = converter.getMethod("write", message, short.class, boolean.class);
        }

        Message create() throws ReflectiveOperationException {
            return (Message) message.getDeclaredConstructor().newInstance();
        }

        Message fromJson(JsonNode node, short version) throws ReflectiveOperationException {
            return (Message) read.invoke(null, node, version);
        }

        JsonNode toJson(Message value, short version) throws ReflectiveOperationException {
            boolean withRecords = false;
            return (JsonNode) write.invoke(null, value, version, withRecords);
        }
    }
}
