import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/**
 * The Java side of the interop tests.
 *
 * <p>{@code InteropHost tools} runs main methods of Kafka's tools one after another in this JVM, because starting one
 * costs half a second and running one a few milliseconds. A request on standard input is a count and that many
 * strings: the class and its arguments. The answer on standard output is the exit code and two strings: what the tool
 * printed on its standard output and on its standard error. Numbers are 4 bytes, big endian; a string is its length in
 * bytes and UTF-8. The log goes to the real standard error.
 *
 * <p>{@code InteropHost server FILE} is {@code kafka.Kafka FILE}.
 *
 * <p>Both end at once when standard input ends, so that nothing is left over however the test ends.
 */
public final class InteropHost {
    private static final class ExitError extends Error {
        private static final long serialVersionUID = 1;
    }

    private static Integer exitCode;

    public static void main(String[] args) throws Throwable {
        BlockingQueue<String[]> requests = new LinkedBlockingQueue<>();
        DataInputStream in = new DataInputStream(System.in);
        Thread reader = new Thread(() -> {
            try {
                while (true) {
                    requests.add(readRequest(in));
                }
            } catch (IOException e) {
                Runtime.getRuntime().halt(3);
            }
        }, "standard-input");
        reader.setDaemon(true);
        reader.start();
        System.setIn(InputStream.nullInputStream());
        if (args[0].equals("server")) {
            call("kafka.Kafka", Arrays.copyOfRange(args, 1, args.length));
            return;
        }
        DataOutputStream out = new DataOutputStream(new FileOutputStream(FileDescriptor.out));
        catchExit();
        while (true) {
            ByteArrayOutputStream stdout = new ByteArrayOutputStream();
            ByteArrayOutputStream stderr = new ByteArrayOutputStream();
            int code = run(requests.take(), stdout, stderr);
            out.writeInt(code);
            out.writeInt(stdout.size());
            stdout.writeTo(out);
            out.writeInt(stderr.size());
            stderr.writeTo(out);
            out.flush();
        }
    }

    private static String[] readRequest(DataInputStream in) throws IOException {
        String[] request = new String[in.readInt()];
        for (int i = 0; i < request.length; i++) {
            byte[] text = new byte[in.readInt()];
            in.readFully(text);
            request[i] = new String(text, StandardCharsets.UTF_8);
        }
        return request;
    }

    private static int run(String[] request, ByteArrayOutputStream stdout, ByteArrayOutputStream stderr) {
        System.setOut(new PrintStream(stdout, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(stderr, true, StandardCharsets.UTF_8));
        exitCode = null;
        int code = 0;
        try {
            call(request[0], Arrays.copyOfRange(request, 1, request.length));
        } catch (ExitError e) {
            // The tool asked for it.
        } catch (Throwable e) {
            // As the JVM does it for an exception that leaves main.
            System.err.print("Exception in thread \"main\" ");
            e.printStackTrace();
            code = 1;
        }
        System.out.flush();
        System.err.flush();
        return exitCode == null ? code : exitCode;
    }

    private static void call(String className, String[] args) throws Throwable {
        try {
            Class.forName(className).getMethod("main", String[].class).invoke(null, (Object) args);
        } catch (InvocationTargetException e) {
            throw e.getCause();
        }
    }

    /** Makes Kafka's Exit throw instead. The first code counts: some tools catch what is thrown and exit again. */
    private static void catchExit() throws ReflectiveOperationException {
        Class<?> exit;
        try {
            exit = Class.forName("org.apache.kafka.common.utils.internals.Exit");
        } catch (ClassNotFoundException e) {
            exit = Class.forName("org.apache.kafka.common.utils.Exit"); // before 4.4
        }
        Class<?> procedure = Class.forName(exit.getName() + "$Procedure");
        Object thrower = Proxy.newProxyInstance(exit.getClassLoader(), new Class<?>[] {procedure}, (proxy, method, args) -> {
            if (exitCode == null) {
                exitCode = (Integer) args[0];
            }
            throw new ExitError();
        });
        exit.getMethod("setExitProcedure", procedure).invoke(null, thrower);
        exit.getMethod("setHaltProcedure", procedure).invoke(null, thrower);
    }
}
