import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.security.Security;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;

import org.apache.kafka.common.message.VotersRecord;
import org.apache.kafka.raft.DynamicVoters;

/**
 * Asks Apache Kafka for its verdict on each list of a table and prints the table anew:
 *
 *   java -cp 'kafka/libs/*' Record.java < kafka-4.4.0.txt > new.txt
 *
 * A row is the list as a quoted Go string, a tab, and the verdict: the voters of the record in the order of their ids,
 * each id@host:port:directory-id and also quoted, or "refused: " and Kafka's reason. ~ is short for DIRECTORY_ID.
 * Rows that begin with # are kept.
 */
public class Record {
    private static final String DIRECTORY_ID = "JEXY6aqzQY-32P5TStzaFg";

    public static void main(String[] args) throws Exception {
        // Otherwise a host that was resolved keeps the spelling of the row where it came first.
        Security.setProperty("networkaddress.cache.ttl", "0");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
        for (String row = in.readLine(); row != null; row = in.readLine()) {
            if (row.isEmpty() || row.startsWith("#")) {
                out.println(row);
                continue;
            }
            String quoted = row.split("\t")[0];
            String verdict = verdict(unquote(quoted.replace("~", DIRECTORY_ID)));
            out.println(quoted + "\t" + verdict.replace(DIRECTORY_ID, "~"));
        }
        out.flush();
    }

    private static String verdict(String list) {
        List<VotersRecord.Voter> voters;
        try {
            voters = new ArrayList<>(DynamicVoters.parse(list).toVoterSet("CONTROLLER").toVotersRecord((short) 0).voters());
        } catch (IllegalArgumentException e) {
            return "refused: " + escape(e.getMessage());
        }
        voters.sort(Comparator.comparingInt(VotersRecord.Voter::voterId));
        StringBuilder text = new StringBuilder();
        for (VotersRecord.Voter voter : voters) {
            VotersRecord.Endpoint endpoint = voter.endpoints().iterator().next();
            text.append(text.isEmpty() ? "" : " ").append(quote(voter.voterId() + "@" + endpoint.host()
                + ":" + endpoint.port() + ":" + voter.voterDirectoryId()));
        }
        return text.toString();
    }

    private static String quote(String s) {
        return '"' + escape(s).replace("\"", "\\\"") + '"';
    }

    private static String escape(String s) {
        StringBuilder text = new StringBuilder();
        s.codePoints().forEach(c -> text.append(
            c == '\\' ? "\\\\" : c >= ' ' && c < 0x7f ? Character.toString(c) : String.format(c > 0xffff ? "\\U%08x" : "\\u%04x", c)));
        return text.toString();
    }

    private static String unquote(String quoted) {
        StringBuilder text = new StringBuilder();
        for (int i = 1; i < quoted.length() - 1; i++) {
            char c = quoted.charAt(i);
            if (c != '\\') {
                text.append(c);
                continue;
            }
            c = quoted.charAt(++i);
            int digits = c == 'u' ? 4 : c == 'U' ? 8 : 0;
            if (digits == 0) {
                text.append(c);
            } else {
                text.appendCodePoint(Integer.parseInt(quoted.substring(i + 1, i + 1 + digits), 16));
                i += digits;
            }
        }
        return text.toString();
    }
}
