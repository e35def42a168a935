import java.io.*;
import java.nio.*;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.metadata.ConfigRecord;
import org.apache.kafka.common.protocol.*;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.*;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/** Batches of ConfigRecords with each codec, made by Kafka's classes: codec, number of records, hex. */
public class Compressed {
  public static void main(String[] args) throws Exception {
    PrintStream out = new PrintStream(new FileOutputStream(args[0]), true, "UTF-8");
    for (String codec : new String[]{"none", "gzip", "snappy", "lz4", "zstd"}) for (int n : new int[]{3, 2000}) {
      if (n > 3 && !codec.equals("snappy") && !codec.equals("lz4")) continue;
      MemoryRecordsBuilder b = MemoryRecords.builder(ByteBuffer.allocate(1 << 20), RecordBatch.CURRENT_MAGIC_VALUE,
          Compression.of(codec).build(), TimestampType.CREATE_TIME, 10, 1796017003580L, 4);
      for (int i = 0; i < n; i++) {
        ApiMessageAndVersion r = new ApiMessageAndVersion(new ConfigRecord().setResourceType((byte) 2)
            .setResourceName("t" + i).setName("n").setValue("v".repeat(20)), (short) 0);
        ObjectSerializationCache c = new ObjectSerializationCache();
        ByteBuffer v = ByteBuffer.allocate(MetadataRecordSerde.INSTANCE.recordSize(r, c));
        MetadataRecordSerde.INSTANCE.write(r, c, new ByteBufferAccessor(v));
        b.append(1796017003580L, null, v.array());
      }
      ByteBuffer buffer = b.build().buffer();
      StringBuilder hex = new StringBuilder();
      while (buffer.hasRemaining()) hex.append(String.format("%02x", buffer.get()));
      out.println(codec + "\t" + n + "\t" + hex);
    }
  }
}
