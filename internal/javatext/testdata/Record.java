import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import java.util.function.IntPredicate;

/**
 * Asks Java what its text rules are and prints the table of TestJava, which was recorded with OpenJDK 17:
 *
 *   java Record.java > java-17.txt
 *
 * Rows, cut at tabs, with texts as quoted Go strings:
 *
 *   drops at the start | end   FIRST LAST          characters that String.trim drops there, all of them
 *   digits                     ZERO                ten characters with the values 0 to 9 of Character.digit, all of them
 *   trim                       TEXT TRIMMED
 *   parse                      TEXT SHORT INT LONG  parseShort, parseInt and parseLong, - where one refuses
 */
public class Record {
    static String quote(String s) {
        StringBuilder b = new StringBuilder("\"");
        s.codePoints().forEach(c -> {
            if (c == '"' || c == '\\') b.append('\\').appendCodePoint(c);
            else if (c >= ' ' && c <= '~') b.appendCodePoint(c);
            else b.append(String.format(c < 0x10000 ? "\\u%04x" : "\\U%08x", c));
        });
        return b.append('"').toString();
    }

    static void row(String... cells) {
        System.out.println(String.join("\t", cells));
    }

    /** Prints the ranges of the characters for which dropped holds. */
    static void ranges(String kind, IntPredicate dropped) {
        for (int first = 0; first <= Character.MAX_VALUE; first++) {
            if (!dropped.test(first)) continue;
            int last = first;
            while (dropped.test(last + 1)) last++;
            row(kind, quote("" + (char) first), quote("" + (char) last));
            first = last;
        }
    }

    static <T> String verdict(Function<String, T> parse, String text) {
        try {
            return parse.apply(text).toString();
        } catch (NumberFormatException e) {
            return "-";
        }
    }

    /** The text with its digits in the script whose zero is given. */
    static String script(String text, int zero) {
        StringBuilder b = new StringBuilder();
        for (char c : text.toCharArray()) b.appendCodePoint(c >= '0' && c <= '9' ? zero + c - '0' : c);
        return b.toString();
    }

    public static void main(String[] args) {
        ranges("drops at the start", c -> c <= Character.MAX_VALUE && !((char) c + "x").trim().startsWith("" + (char) c));
        ranges("drops at the end", c -> c <= Character.MAX_VALUE && !("x" + (char) c).trim().endsWith("" + (char) c));
        for (int c = 0; c <= Character.MAX_VALUE; c++) {
            if (Character.digit((char) c, 10) < 0) continue;
            for (int i = 0; i < 10; i++) {
                if (Character.digit((char) (c + i), 10) != i) throw new IllegalStateException("no ten digits from " + c);
            }
            row("digits", quote("" + (char) c));
            c += 9;
        }

        for (String text : new String[]{"", " ", "\u0000", "x", " x ", "\t\r\n x\u0001y \u001f", "\u00a0x\u00a0", "\u007fx\u0085",
                "\u2003 x \u3000", "\ufeff x \u200b", "x y", " \u00e9 ", " \ud835\udfcf "}) {
            row("trim", quote(text), quote(text.trim()));
        }

        List<String> texts = new ArrayList<>();
        for (String digits : new String[]{"0", "7", "007", "32767", "32768", "32769", "65535", "65536", "2147483647", "2147483648", "2147483649",
                "4294967296", "9223372036854775807", "9223372036854775808", "9223372036854775809", "18446744073709551616",
                "00000000000000000000000001"}) {
            for (String sign : new String[]{"", "+", "-"}) {
                for (int zero : new int[]{'0', 0x0660, 0xff10}) texts.add(sign + script(digits, zero));
            }
        }
        for (int zero : new int[]{0x1d7ce, 0x1d7d8, 0x1d7e2, 0x104a0, 0x1fbf0}) texts.add(script("1", zero)); // beyond 16 bits
        for (String text : new String[]{"", "+", "-", "++1", "--1", "+-1", "-+1", "1+", "1-", " 1", "1 ", "\t1", "1\u0000", "1 2", "1_0", "1,0", "1.0",
                "1e3", "0x10", "0b1", "0o7", "1L", "a", "1a", "NaN", "1\u0661\uff11", "\u0661x", "\u221211", "\uff0b1", "\uff0d1",
                "\u00b2", "\u2460", "\u2167", "\u4e00", "\u3007", "\u0bf0", "\u00bd", "\uff21", "\ufeff1", "\u200f1", "1\u0301"}) {
            texts.add(text);
        }
        for (String text : texts) {
            row("parse", quote(text), verdict(Short::parseShort, text), verdict(Integer::parseInt, text), verdict(Long::parseLong, text));
        }
    }
}
