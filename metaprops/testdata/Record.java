import java.io.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.metadata.properties.*;

// Asks Apache Kafka what it makes of meta.properties files, and prints its verdicts as the *.jsonl files here,
// which were recorded with Kafka 4.4.0 on Java 17. Run it with Kafka's jars, one case a
// line on stdin; lines of its output that don't begin with { are Kafka's log:
//
//   java -cp 'kafka/libs/*' Record.java decode < cases    base64 of a file
//   java -cp 'kafka/libs/*' Record.java encode < cases    version, node id, directory id, base64 of the cluster id (UTF-8, with a = in front); -: none
//   java -cp 'kafka/libs/*' Record.java dirs   < cases    expected cluster id (as above), expected node id, then name=base64 of its file, name (no file), !name (no directory), .name (a plain file)
public class Record {
    static String quote(String s) {
        StringBuilder b = new StringBuilder("\"");
        for (char c : s.toCharArray()) {
            if (c == '"' || c == '\\') b.append('\\').append(c);
            else if (c < ' ' || c > '~') b.append(String.format("\\u%04x", (int) c));
            else b.append(c);
        }
        return b.append('"').toString();
    }

    static byte[] bytes(String base64) { return Base64.getDecoder().decode(base64); }
    static String base64(byte[] b) { return Base64.getEncoder().encodeToString(b); }

    static String decode(String line, Path dir) throws Exception {
        Path file = dir.resolve("meta.properties");
        Files.write(file, bytes(line));
        try {
            MetaProperties m = new MetaProperties.Builder(PropertiesUtils.readPropertiesFile(file.toString())).build();
            return "{\"file\":\"" + line + "\",\"shown\":" + quote(new TreeMap<>(m.toProperties()).toString()) + "}";
        } catch (Exception e) {
            return "{\"file\":\"" + line + "\",\"error\":" + quote(String.valueOf(e.getMessage())) + "}";
        }
    }

    static String encode(String line, Path dir) throws Exception {
        String[] f = line.split(" ");
        MetaProperties.Builder b = new MetaProperties.Builder().setVersion(MetaPropertiesVersion.fromNumberString(f[0]));
        if (!f[1].equals("-")) b.setNodeId(Integer.parseInt(f[1]));
        if (!f[2].equals("-")) b.setDirectoryId(Uuid.fromString(f[2]));
        if (!f[3].equals("-")) b.setClusterId(new String(bytes(f[3].substring(1)), StandardCharsets.UTF_8));
        Path file = dir.resolve("meta.properties");
        PropertiesUtils.writePropertiesFile(b.build().toProperties(), file.toString(), true);
        MetaProperties back = new MetaProperties.Builder(PropertiesUtils.readPropertiesFile(file.toString())).build();
        String text = Files.readString(file, StandardCharsets.UTF_8);
        String rest = text.substring(text.indexOf('\n', 2) + 1); // without the date
        return "{\"version\":" + f[0] + ",\"node\":" + (f[1].equals("-") ? "null" : f[1]) + ",\"directory\":" + quote(f[2])
            + ",\"given\":" + (f[3].equals("-") ? "null" : quote(b.clusterId().get()))
            + ",\"file\":\"" + base64(rest.getBytes(StandardCharsets.UTF_8)) + "\",\"read\":" + quote(back.clusterId().orElse("")) + "}";
    }

    static String dirs(String line, Path scratch) throws Exception {
        String[] f = line.split(" ");
        Optional<String> cluster = f[0].equals("-") ? Optional.empty() : Optional.of(new String(bytes(f[0].substring(1)), StandardCharsets.UTF_8));
        OptionalInt node = f[1].equals("-") ? OptionalInt.empty() : OptionalInt.of(Integer.parseInt(f[1]));
        StringBuilder cases = new StringBuilder();
        List<String> dirs = new ArrayList<>();
        for (String d : Arrays.copyOfRange(f, 2, f.length)) {
            String name = d.split("=", 2)[0].replaceAll("^[!.]", "");
            Path dir = scratch.resolve(name);
            dirs.add(dir.toString());
            String file = d.contains("=") ? quote(d.split("=", 2)[1]) : "null";
            String state = "dir";
            if (d.startsWith("!")) state = "missing";
            else if (d.startsWith(".")) { state = "plain"; Files.write(dir, new byte[1]); }
            else Files.createDirectory(dir);
            if (d.contains("=")) Files.write(dir.resolve("meta.properties"), bytes(d.split("=", 2)[1]));
            cases.append(cases.length() > 0 ? "," : "").append("{\"name\":" + quote(name) + ",\"state\":\"" + state + "\",\"file\":" + file + "}");
        }
        String verify = "";
        try {
            new MetaPropertiesEnsemble.Loader().addLogDirs(dirs).load().verify(cluster, node,
                EnumSet.of(MetaPropertiesEnsemble.VerificationFlag.REQUIRE_AT_LEAST_ONE_VALID));
        } catch (RuntimeException e) {
            verify = e.getMessage();
        }
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        Collections.sort(dirs);
        int status = kafka.tools.StorageTool.infoCommand(new PrintStream(out, true, StandardCharsets.UTF_8), true,
            scala.jdk.javaapi.CollectionConverters.asScala(dirs).toSeq());
        String w = scratch.toString(), info = out.toString(StandardCharsets.UTF_8);
        info = info.substring(info.indexOf("Found ")); // stack traces stand in front
        return "{\"cluster\":" + (cluster.isPresent() ? quote(cluster.get()) : "null") + ",\"node\":" + (node.isPresent() ? node.getAsInt() : "null")
            + ",\"dirs\":[" + cases + "],\"verify\":" + quote(verify.replace(w, "$WORK")) + ",\"status\":" + status
            + ",\"info\":" + quote(info.replace(w, "$WORK")) + "}";
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line; (line = in.readLine()) != null; ) {
            Path scratch = Files.createTempDirectory("record");
            switch (args[0]) {
                case "decode": System.out.println(decode(line, scratch)); break;
                case "encode": System.out.println(encode(line, scratch)); break;
                case "dirs": System.out.println(dirs(line, scratch)); break;
            }
        }
    }
}
