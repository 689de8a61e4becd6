import java.io.BufferedReader;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.file.Paths;
import org.apache.hadoop.hive.cli.CliDriver;
import org.apache.hadoop.hive.conf.HiveConf;

/**
 * Runs scripts with Hive's own command line, one after another in one JVM.
 *
 * <p>A start of the command line costs more processor time than most scripts. Each script has a session and a thread of
 * its own, as Hive keeps its session, its metastore client and its class loader by thread. Compiled at start by Janino,
 * which knows no lambdas.
 *
 * <p>A request is a line on standard input: configuration file, script, file for the output, file for the errors,
 * separated by tabs. The answer is a line with the status. The JVM ends with its standard input, that is with its owner.
 */
public class HiveStatements {
    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        Current output = new Current();
        Current errors = new Current();
        System.setOut(new PrintStream(output, true, "UTF-8"));
        System.setErr(new PrintStream(errors, true, "UTF-8"));
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        String request = requests.readLine();
        while (request != null) {
            String[] files = request.split("\t");
            output.file = new FileOutputStream(files[2]);
            errors.file = new FileOutputStream(files[3]);
            Run run = new Run(files[0], files[1]);
            Thread thread = new Thread(run);
            thread.setContextClassLoader(HiveStatements.class.getClassLoader());
            thread.start();
            thread.join();
            System.out.flush();
            System.err.flush();
            output.file.close();
            errors.file.close();
            answers.println(run.status);
            answers.flush();
            request = requests.readLine();
        }
        Runtime.getRuntime().halt(0);
    }

    static class Run implements Runnable {
        final String configuration;
        final String script;
        volatile int status = -1;

        Run(String configuration, String script) {
            this.configuration = configuration;
            this.script = script;
        }

        public void run() {
            try {
                HiveConf.setHiveSiteLocation(Paths.get(this.configuration, new String[0]).toUri().toURL());
                this.status = new CliDriver().run(new String[] {"-f", this.script});
            } catch (Throwable problem) {
                problem.printStackTrace();
            }
        }
    }

    /** Log4j keeps the stream that it finds at its start: this one stays, and leads to the file of the script that runs. */
    static class Current extends OutputStream {
        volatile FileOutputStream file;

        public void write(int one) throws IOException {
            this.file.write(one);
        }

        public void write(byte[] bytes, int offset, int length) throws IOException {
            this.file.write(bytes, offset, length);
        }
    }
}
