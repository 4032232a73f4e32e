import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Supplier;

/** What the Java programs of the client matrix share: steps, a line for each, and the exit code. */
final class Steps {
    /** Bounds one step: generous, for a machine that does much else. */
    static final Duration TIMEOUT = Duration.ofSeconds(90);

    interface Step {
        void run() throws Exception;
    }

    private final Map<String, Step> all = new LinkedHashMap<>();

    void add(String name, Step step) {
        all.put(name, step);
    }

    /** Runs the steps in order, also behind one that failed, and ends the process. */
    void main(String version) {
        System.out.println("version " + version);
        int code = 0;
        var threads = Executors.newCachedThreadPool(r -> {
            var t = new Thread(r);
            t.setDaemon(true);
            return t;
        });
        for (var e : all.entrySet()) {
            long start = System.nanoTime();
            Throwable failure = null;
            Future<?> done = threads.submit((Callable<Void>) () -> {
                e.getValue().run();
                return null;
            });
            try {
                done.get(TIMEOUT.toSeconds(), TimeUnit.SECONDS);
            } catch (ExecutionException x) {
                failure = x.getCause();
            } catch (TimeoutException x) {
                failure = new AssertionError("not done after " + TIMEOUT.toSeconds() + " s");
                done.cancel(true);
            } catch (InterruptedException x) {
                failure = x;
            }
            String took = String.format(" (%.2fs)", (System.nanoTime() - start) / 1e9);
            if (failure == null) {
                System.out.println("PASS " + e.getKey() + took);
            } else if (unsupported(failure)) {
                System.out.println("SKIP " + e.getKey() + ": the broker does not offer it");
            } else {
                code = 1;
                System.out.println("FAIL " + e.getKey() + took + ": " + text(failure));
            }
        }
        System.out.flush();
        Runtime.getRuntime().halt(code); // members that hang do not keep the process
    }

    /** The version of the client on the class path. */
    static String kafkaVersion() {
        try (var in = Steps.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            var p = new Properties();
            p.load(in);
            return p.getProperty("version");
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static boolean unsupported(Throwable t) {
        for (; t != null; t = t.getCause()) {
            if (t.getClass().getName().equals("org.apache.kafka.common.errors.UnsupportedVersionException")) {
                return true;
            }
        }
        return false;
    }

    private static String text(Throwable t) {
        var b = new StringBuilder();
        for (; t != null; t = t.getCause()) {
            b.append(b.length() == 0 ? "" : " <- ").append(t.toString().replace('\n', ';'));
        }
        return b.toString();
    }

    static void expect(boolean ok, Object what) {
        if (!ok) {
            throw new AssertionError(what);
        }
    }

    /** Looks until a condition holds; what says what is there instead. */
    static void until(Supplier<String> what, Callable<Boolean> look) throws Exception {
        long deadline = System.nanoTime() + TIMEOUT.toNanos() * 8 / 10;
        while (!look.call()) {
            expect(System.nanoTime() < deadline, what.get());
            Thread.sleep(50);
        }
    }
}
