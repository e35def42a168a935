import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.TreeMap;
import java.util.stream.Collectors;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.Endpoint;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.raft.QuorumConfig;
import org.apache.kafka.server.ProcessRole;

/**
 * Records what Kafka makes of the cases in the files that are its arguments: the fields "ok" and "refused" of each line
 * are replaced. Run it in this folder with the jars of the wanted Kafka; config providers see its environment:
 *
 *   javac -cp 'KAFKA/*' -d /tmp/record Record.java
 *   env PROBE_DIR=fromenv PROBE_NUM=6 PROBE_ONE=1 PROBE_ROLES=broker,controller PROBE_EMPTY= PROBE_SP=' 6 ' \
 *     PROBE_VAR='${env:PROBE_DIR}' PROBE_UNI=dé LC_ALL=C.UTF-8 \
 *     java -cp 'KAFKA/*:/tmp/record' Record values.jsonl files.jsonl
 *
 * defaults.jsonl is written anew with "java ... Record defaults": the value of each setting that combined.properties does not set.
 */
public class Record {
    static final ObjectMapper JSON = new ObjectMapper();
    static final String WORK = Path.of("providers").toAbsolutePath().toString();

    public static void main(String[] args) throws Exception {
        for (String arg : args) {
            if (arg.equals("defaults")) {
                defaults();
            } else {
                record(Path.of(arg));
            }
        }
        System.exit(0);
    }

    static void record(Path file) throws Exception {
        List<String> out = new ArrayList<>();
        for (String line : Files.readAllLines(file)) {
            ObjectNode c = (ObjectNode) JSON.readTree(line);
            c.remove(List.of("ok", "refused"));
            try {
                KafkaConfig config = new KafkaConfig(load(c));
                String key = c.path("key").asText();
                c.put("ok", hide(key.isEmpty() ? summary(config) : text(config.values().get(key))));
            } catch (Exception e) {
                c.put("refused", hide(e.getClass().getSimpleName() + ": " + e.getMessage()));
            }
            out.add(JSON.writeValueAsString(c));
        }
        Files.write(file, out);
    }

    /** The base file without the lines of some keys, and other lines behind them. */
    static Properties load(ObjectNode c) throws Exception {
        StringBuilder text = new StringBuilder();
        for (String line : Files.readAllLines(Path.of(c.get("base").asText() + ".properties"))) {
            boolean drop = false;
            for (var key : c.path("without")) {
                drop |= line.startsWith(key.asText() + "=");
            }
            if (!drop) {
                text.append(line).append('\n');
            }
        }
        text.append(c.path("lines").asText());
        Path file = Files.createTempFile("record", ".properties");
        Files.write(file, text.toString().replace("$WORK", WORK).getBytes(StandardCharsets.UTF_8));
        try {
            return Utils.loadProps(file.toString());
        } finally {
            Files.delete(file);
        }
    }

    static String hide(String text) {
        return text.replace(WORK, "$WORK");
    }

    static void defaults() throws Exception {
        KafkaConfig config = new KafkaConfig(load(JSON.createObjectNode().put("base", "combined")));
        List<String> out = new ArrayList<>();
        for (var e : new TreeMap<>(config.values()).entrySet()) {
            if (!config.originals().containsKey(e.getKey())) {
                out.add(JSON.writeValueAsString(JSON.createObjectNode().put("key", e.getKey()).put("value", text(e.getValue()))));
            }
        }
        Files.write(Path.of("defaults.jsonl"), out);
    }

    static String text(Object value) {
        if (value == null) {
            return null;
        } else if (value instanceof Password) {
            return "";
        } else if (value instanceof List) {
            return ((List<?>) value).stream().map(String::valueOf).collect(Collectors.joining("|"));
        } else if (value instanceof Class) {
            return ((Class<?>) value).getName();
        }
        return String.valueOf(value);
    }

    static String summary(KafkaConfig c) {
        String roles = (c.processRoles().contains(ProcessRole.BrokerRole) ? "b" : "") + (c.processRoles().contains(ProcessRole.ControllerRole) ? "c" : "");
        return "node=" + c.nodeId() + " roles=" + roles + " dirs=" + String.join("|", c.logDirs()) + " metadata=" + c.metadataLogDir()
            + " cordoned=" + String.join("|", c.cordonedLogDirs()) + " listeners=" + listeners(c.listeners())
            + " advertised=" + listeners(c.effectiveAdvertisedBrokerListeners()) + " controllers=" + listeners(c.effectiveAdvertisedControllerListeners())
            + " names=" + String.join("|", c.controllerListenerNames()) + " voters=" + voters(c.quorumConfig().voters())
            + " bootstrap=" + QuorumConfig.parseBootstrapServers(c.quorumConfig().bootstrapServers()).stream().map(a -> a.getHostString() + ":" + a.getPort()).collect(Collectors.joining("|"))
            + " interBroker=" + c.interBrokerListenerName().value();
    }

    static String voters(List<String> voters) {
        // Kafka refuses this address only where it needs one.
        List<String> routable = voters.stream().map(v -> v.replace("@0.0.0.0:", "@any:")).collect(Collectors.toList());
        return new TreeMap<>(QuorumConfig.parseVoterConnections(routable)).entrySet().stream()
            .map(e -> e.getKey() + "@" + e.getValue().getHostString() + ":" + e.getValue().getPort()).collect(Collectors.joining("|")).replace("@any:", "@0.0.0.0:");
    }

    static String listeners(scala.collection.Seq<Endpoint> listeners) {
        return scala.jdk.javaapi.CollectionConverters.asJava(listeners).stream()
            .map(e -> e.listener() + "/" + e.securityProtocol() + "/" + (e.host() == null ? "" : e.host()) + "/" + e.port()).collect(Collectors.joining("|"));
    }
}
