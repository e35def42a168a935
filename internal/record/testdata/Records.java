import com.fasterxml.jackson.databind.*;
import com.fasterxml.jackson.databind.node.*;
import java.io.*;
import java.lang.reflect.*;
import java.nio.*;
import java.util.*;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.*;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.metadata.*;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

public class Records {
  static int n; // counter for distinct values
  static String mode;
  static Method setter(Class<?> c, String name) {
    for (Method m : c.getMethods()) if (m.getName().equals("set" + name) && m.getParameterCount() == 1) return m;
    throw new RuntimeException(c + " set" + name);
  }
  static String str() { n++; switch (mode) { case "extreme": return "x".repeat(200) + n; case "text": return "é\"\\/\n\t\u0001\u001f\u007f€😀<" + n; default: return "s" + n; } }
  static long num(long lo, long hi) {
    n++;
    switch (mode) { case "extreme": return n % 2 == 0 ? lo : hi; default: return Math.min(hi, 1 + n % 100); }
  }
  static Uuid uuid() { n++; return mode.equals("extreme") ? new Uuid(Long.MIN_VALUE + n, -n) : new Uuid(0x0102030405060708L, n); }
  static final double[] DOUBLES = {1.5, 0, -0.0, 1e7, 9999999, 0.001, 9.99e-4, 1e21, 123456789.125, Double.MAX_VALUE, Double.MIN_VALUE, Double.NaN, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY, 100, 0.1, 1.0/3, 4.35, 2e-3};
  static int dbl;
  static Object prim(String type) {
    switch (type) {
      case "boolean": n++; return mode.equals("extreme") ? true : n % 2 == 0;
      case "int8": return (byte) num(-128, 127);
      case "int16": return (short) num(-32768, 32767);
      case "uint16": return (int) num(0, 65535);
      case "int32": return (int) num(Integer.MIN_VALUE, Integer.MAX_VALUE);
      case "int64": return num(Long.MIN_VALUE, Long.MAX_VALUE);
      case "float64": return DOUBLES[dbl++ % DOUBLES.length];
      case "uuid": return uuid();
      case "compact_string": case "compact_nullable_string": return str();
      case "compact_bytes": { byte[] b = new byte[mode.equals("extreme") ? 200 : 5]; n++; for (int i = 0; i < b.length; i++) b[i] = (byte) (n * 37 + i * 11); return b; }
    }
    throw new RuntimeException(type);
  }
  static Set<Integer> tags(JsonNode record) {
    Set<Integer> tags = new HashSet<>();
    for (JsonNode s : record.get("schemas")) for (JsonNode f : s.get("fields")) if (f.has("tag")) tags.add(f.get("tag").asInt());
    return tags;
  }
  // unknown: null, or the tags that are known in any version; tagged fields with other tags are added then.
  static void fill(Object o, JsonNode fields, Set<Integer> unknown) throws Exception {
    for (JsonNode f : fields) {
      String name = f.get("name").asText(), type = f.get("type").asText();
      if (o.getClass().getName().contains(".message.") && name.equals("Version") ) continue;
      Method m = setter(o.getClass(), name);
      boolean nullable = f.path("nullable").asBoolean() ;
      if (mode.equals("nulls")) {
        if (nullable) { m.invoke(o, (Object) null); continue; }
        if (type.equals("compact_string")) { m.invoke(o, ""); continue; }
        if (type.equals("compact_bytes")) { m.invoke(o, (Object) new byte[0]); continue; }
        if (!type.equals("compact_array")) continue;
      }
      if (mode.equals("empty") ) {
        if (type.contains("string")) { m.invoke(o, ""); continue; }
        if (type.equals("compact_array")) { Class<?> p0 = m.getParameterTypes()[0]; m.invoke(o, p0.isInterface() ? new ArrayList<>() : p0.getConstructor().newInstance()); continue; }
        continue;
      }
      if (type.equals("compact_array")) {
        Class<?> pt = m.getParameterTypes()[0];
        Collection<Object> list = pt.isInterface() ? new ArrayList<>() : (Collection<Object>) pt.getConstructor().newInstance();
        int len = mode.equals("extreme") ? 3 : 2;
        if (mode.equals("nulls")) len = 1;
        for (int i = 0; i < len; i++) {
          if (f.get("elem").asText().equals("struct")) {
            Class<?> ec = elem(m, pt);
            Object e = ec.getConstructor().newInstance();
            fill(e, f.get("fields"), unknown == null ? null : Set.of());
            list.add(e);
          } else list.add(prim(f.get("elem").asText()));
        }
        m.invoke(o, list);
      } else if (type.equals("struct")) {
        Object e = m.getParameterTypes()[0].getConstructor().newInstance();
        fill(e, f.get("fields"), unknown == null ? null : Set.of());
        m.invoke(o, e);
      } else m.invoke(o, prim(type));
    }
    if (unknown != null) {
      List<RawTaggedField> u = ((Message) o).unknownTaggedFields();
      for (int tag : new int[]{1, 4, 300}) if (!unknown.contains(tag)) { byte[] b = new byte[tag % 7]; Arrays.fill(b, (byte) (n++)); u.add(new RawTaggedField(tag, b)); }
    }
  }
  static Class<?> elem(Method m, Class<?> pt) {
    if (pt.isInterface()) return (Class<?>) ((ParameterizedType) m.getGenericParameterTypes()[0]).getActualTypeArguments()[0];
    return (Class<?>) ((ParameterizedType) pt.getGenericSuperclass()).getActualTypeArguments()[0];
  }
  static final String[] MODES = {"default", "full", "text", "nulls", "empty", "extreme", "unknown"};
  static final ObjectMapper om = new ObjectMapper();
  static PrintStream out;
  static void emit(int key, String name, int version, String mode, byte[] b, String json) throws Exception {
    StringBuilder hex = new StringBuilder(); for (byte x : b) hex.append(String.format("%02x", x));
    out.println(key + "\t" + name + "\t" + version + "\t" + mode + "\t" + hex + "\t" + json);
  }
  public static void main(String[] a) throws Exception {
    out = new PrintStream(new FileOutputStream(a[1]), true, "UTF-8");
    JsonNode facts = om.readTree(new File(a[0] + "/metadata-records.json"));
    Set<String> seen = new HashSet<>();
    for (JsonNode r : facts.get("records")) for (JsonNode s : r.get("schemas")) for (JsonNode v : s.get("versions")) for (String md : MODES) {
      int reps = r.get("name").asText().equals("ClientQuotaRecord") && md.equals("full") ? DOUBLES.length : 1;
      for (int i = 0; i < reps; i++) {
      n = 0; mode = md.equals("unknown") ? "full" : md;
      ApiMessage msg = MetadataRecordType.fromId((short) r.get("apiKey").asInt()).newMetadataRecord();
      if (!md.equals("default")) fill(msg, s.get("fields"), md.equals("unknown") ? tags(r) : null);
      ApiMessageAndVersion av = new ApiMessageAndVersion(msg, (short) v.asInt());
      ObjectSerializationCache c = new ObjectSerializationCache();
      int size = MetadataRecordSerde.INSTANCE.recordSize(av, c);
      ByteBuffer buf = ByteBuffer.allocate(size);
      MetadataRecordSerde.INSTANCE.write(av, c, new ByteBufferAccessor(buf));
      JsonNodeFactory jf = JsonNodeFactory.instance;
      ObjectNode j = new ObjectNode(jf);
      j.set("type", new TextNode(MetadataRecordType.fromId(msg.apiKey()).toString()));
      j.set("version", new IntNode(av.version()));
      j.set("data", MetadataJsonConverters.writeJson(msg, av.version()));
      String hexj = j.toString();
      if (!seen.add(Arrays.toString(buf.array()))) continue;
      emit(r.get("apiKey").asInt(), r.get("name").asText(), v.asInt(), md, buf.array(), hexj);
      }
    }
    JsonNode cf = om.readTree(new File(a[0] + "/control-records.json"));
    Map<String,Integer> types = Map.of("LeaderChangeMessage", 2, "SnapshotHeaderRecord", 3, "SnapshotFooterRecord", 4, "KRaftVersionRecord", 5, "VotersRecord", 6);
    for (JsonNode r : cf.get("messages")) for (JsonNode s : r.get("schemas")) for (JsonNode v : s.get("versions")) for (String md : MODES) {
      n = 0; mode = md.equals("unknown") ? "full" : md;
      String cn = r.get("name").asText();
      Class<?> c = Class.forName("org.apache.kafka.common.message." + cn);
      Message msg = (Message) c.getConstructor().newInstance();
      setter(c, "Version").invoke(msg, (short) v.asInt());
      if (!md.equals("default")) fill(msg, s.get("fields"), md.equals("unknown") ? tags(r) : null);
      ByteBuffer buf = MessageUtil.toByteBufferAccessor(msg, (short) v.asInt()).buffer();
      byte[] b = new byte[buf.remaining()]; buf.get(b);
      Class<?> jc = Class.forName("org.apache.kafka.common.message." + cn + "JsonConverter");
      Object j = jc.getMethod("write", c, short.class).invoke(null, msg, (short) v.asInt());
      if (!seen.add(cn + Arrays.toString(b))) continue;
      emit(types.get(cn), cn, v.asInt(), md, b, j.toString());
    }
    out.close();
  }
}
