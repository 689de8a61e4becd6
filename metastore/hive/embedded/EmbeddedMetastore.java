import java.io.BufferedReader;
import java.io.Closeable;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.OutputStream;
import java.lang.management.ManagementFactory;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFilePermissions;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.util.List;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.IHMSHandler;
import org.apache.hadoop.hive.metastore.MetaStoreFS;
import org.apache.hadoop.hive.metastore.RetryingHMSHandler;
import org.apache.hadoop.hive.metastore.TSetIpAddressProcessor;
import org.apache.hadoop.hive.metastore.api.MetaException;
import org.apache.hadoop.hive.ql.optimizer.ppr.PartitionExpressionForMetastore;
import org.apache.hadoop.util.Progressable;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.protocol.TProtocol;
import org.apache.thrift.server.ServerContext;
import org.apache.thrift.server.TServerEventHandler;
import org.apache.thrift.server.TThreadPoolServer;
import org.apache.thrift.transport.TServerSocket;
import org.apache.thrift.transport.TTransport;

/**
 * Hive's own metastore handler behind a loopback socket, alive as long as a process holds a lease on it.
 *
 * <p>Hive's main class listens on every interface, serves every user of the machine, and outlives the process that
 * started it, hence this one. Both ports serve the server's own user and root only ({@link OwnUserSocket}), and no
 * call deletes a file of a table ({@link KeepsFiles}). It is compiled at
 * start by Janino, which is among PySpark's jars and knows no lambdas; a JRE is enough. Arguments: the directory, the
 * thrift port (0: any free one), an id of this start.
 *
 * <p>A lease is a connection to the lease port. The server greets it with the id; when the holder sends a byte or is
 * gone, killed or not, the lease ends, and with the last lease the server. Until the first lease the server lives as
 * long as its standard input is open.
 */
public class EmbeddedMetastore {
    static final String STATE_FILE = "server.json";
    static final Object LOCK = new Object();
    static int holders = 0;
    static boolean everHeld = false;
    static boolean closing = false;

    public static void main(String[] arguments) throws Exception {
        final Path directory = Paths.get(arguments[0], new String[0]);
        int port = Integer.parseInt(arguments[1]);
        String id = arguments[2];
        watchStandardInput(directory);
        try {
            // Derby takes one JVM; a predecessor that is shutting down frees this lock with its last breath.
            FileChannel channel = FileChannel.open(
                createPrivate(directory.resolve("server.lock")),
                new StandardOpenOption[] {StandardOpenOption.CREATE, StandardOpenOption.WRITE});
            channel.lock();
            Peers peers = Peers.ofThisUser();
            ServerSocket leases = new OwnUserSocket(0, peers);
            TServerSocket thrift = new TServerSocket(new OwnUserSocket(port, peers));
            TThreadPoolServer server = metastore(thrift);
            acceptLeases(leases, id, directory);
            writeState(directory, id, thrift.getServerSocket().getLocalPort(), leases.getLocalPort());
            server.serve();
        } catch (Throwable problem) {
            problem.printStackTrace();
            Throwable cause = problem;
            while (cause.getCause() != null) {
                cause = cause.getCause();
            }
            System.err.println("The metastore did not start: " + cause);
            Runtime.getRuntime().halt(1);
        }
    }

    static TThreadPoolServer metastore(TServerSocket socket) throws Exception {
        HiveConf conf = new HiveConf(HiveMetaStore.class);
        conf.setClassLoader(EmbeddedMetastore.class.getClassLoader());
        Thread.currentThread().setContextClassLoader(EmbeddedMetastore.class.getClassLoader());
        final HiveMetaStore.HMSHandler base = new HiveMetaStore.HMSHandler("embedded", conf, false);
        IHMSHandler handler = RetryingHMSHandler.getProxy(conf, base, false);
        handler.get_all_databases(); // the schema exists and the first query is compiled before the address is published
        base.shutdown();
        TBinaryProtocol.Factory protocol = new TBinaryProtocol.Factory();
        TThreadPoolServer.Args settings = new TThreadPoolServer.Args(socket);
        settings.processor(new TSetIpAddressProcessor(handler));
        settings.protocolFactory(protocol);
        settings.minWorkerThreads(2);
        settings.maxWorkerThreads(200);
        TThreadPoolServer server = new TThreadPoolServer(settings);
        server.setServerEventHandler(new TServerEventHandler() {
            public void preServe() {}

            public ServerContext createContext(TProtocol input, TProtocol output) {
                return null;
            }

            public void deleteContext(ServerContext context, TProtocol input, TProtocol output) {
                base.shutdown(); // closes this thread's database connection, nothing else
            }

            public void processContext(ServerContext context, TTransport input, TTransport output) {}
        });
        return server;
    }

    static void writeState(Path directory, String id, int thriftPort, int leasePort) throws IOException {
        String state = "{\"id\": \"" + id + "\", \"pid\": " + ManagementFactory.getRuntimeMXBean().getPid() + ", \"thrift_port\": "
            + thriftPort + ", \"lease_port\": " + leasePort + "}\n";
        Path draft = createPrivate(directory.resolve(STATE_FILE + ".new"));
        Files.write(draft, state.getBytes(StandardCharsets.UTF_8), new StandardOpenOption[] {
            StandardOpenOption.CREATE, StandardOpenOption.WRITE, StandardOpenOption.TRUNCATE_EXISTING});
        Files.move(draft, directory.resolve(STATE_FILE), new StandardCopyOption[] {StandardCopyOption.ATOMIC_MOVE});
    }

    /** Creates a file that only its owner may read, unless the file exists; returns its path. */
    static Path createPrivate(Path file) throws IOException {
        if (!Files.exists(file, new LinkOption[0])) {
            Files.createFile(file, new FileAttribute[] {
                PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------"))});
        }
        return file;
    }

    static void acceptLeases(final ServerSocket leases, final String id, final Path directory) {
        daemon(new Runnable() {
            public void run() {
                while (true) {
                    try {
                        final Socket holder = leases.accept();
                        daemon(new Runnable() {
                            public void run() {
                                hold(holder, id, directory);
                            }
                        });
                    } catch (IOException problem) {
                        problem.printStackTrace();
                        end(directory, 1);
                    }
                }
            }
        });
    }

    static void hold(Socket holder, String id, Path directory) {
        synchronized (LOCK) {
            if (closing) {
                closeQuietly(holder);
                return;
            }
            holders = holders + 1;
            everHeld = true;
        }
        OutputStream output = null;
        try {
            output = holder.getOutputStream();
            output.write((id + "\n").getBytes(StandardCharsets.UTF_8));
            output.flush();
            holder.getInputStream().read();
        } catch (IOException gone) {
            // A killed holder resets the connection: that too ends its lease.
        }
        boolean last;
        synchronized (LOCK) {
            holders = holders - 1;
            last = holders == 0;
            closing = closing || last;
        }
        try {
            output.write((last ? "last\n" : "shared\n").getBytes(StandardCharsets.UTF_8));
            output.flush();
        } catch (Exception gone) {
            // The parent process has ended: there is no reader left.
        }
        closeQuietly(holder);
        if (last) {
            end(directory, 0);
        }
    }

    static void watchStandardInput(final Path directory) {
        daemon(new Runnable() {
            public void run() {
                try {
                    while (System.in.read() >= 0) {}
                } catch (IOException gone) {
                    // The same as its end.
                }
                synchronized (LOCK) {
                    if (everHeld) {
                        return;
                    }
                    closing = true;
                }
                Runtime.getRuntime().halt(1); // the starter died before it had a lease: Derby recovers by its log
            }
        });
    }

    static void end(Path directory, int status) {
        daemon(new Runnable() {
            public void run() {
                try {
                    Thread.sleep(10000L);
                } catch (InterruptedException impossible) {
                    Thread.currentThread().interrupt();
                }
                Runtime.getRuntime().halt(3);
            }
        });
        try {
            Files.deleteIfExists(directory.resolve(STATE_FILE));
            DriverManager.getConnection("jdbc:derby:;shutdown=true");
        } catch (SQLException down) {
            // Derby reports a clean shutdown as an exception.
        } catch (IOException problem) {
            problem.printStackTrace();
        }
        Runtime.getRuntime().halt(status);
    }

    static void daemon(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        thread.start();
    }

    static void closeQuietly(Closeable resource) {
        try {
            resource.close();
        } catch (IOException ignored) {
            // It is of no more use either way.
        }
    }

    /**
     * A loopback port that serves the server's own user and root. The connection of another user is closed before a
     * byte of it is read, so that the thrift library never parses what that user sends.
     */
    static class OwnUserSocket extends ServerSocket {
        private final Peers peers;

        OwnUserSocket(int port, Peers peers) throws IOException {
            super();
            this.peers = peers;
            this.setReuseAddress(true);
            this.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), 64);
        }

        public Socket accept() throws IOException {
            while (true) {
                Socket connection = super.accept();
                if (this.peers.serves(connection)) {
                    return connection;
                }
                closeQuietly(connection);
            }
        }
    }

    /**
     * Finds the user at the other end of a loopback connection, in Linux' tables of TCP sockets.
     *
     * <p>A row is believed only if its state is ESTABLISHED: Linux shows uid 0 for the socket of a peer that has
     * closed it, and such a peer may have sent a whole call before. Other systems have no such table: there every
     * connection is served (docs/rights.md).
     */
    static class Peers {
        private static final String[] TABLES = {"/proc/self/net/tcp", "/proc/self/net/tcp6"};
        private static final String ESTABLISHED = "01";
        private static final String ROOT = "0";
        private static final int LOOKS = 3;
        private final String ownUser;
        private String lastRefused = "";

        private Peers(String ownUser) {
            this.ownUser = ownUser;
        }

        /** Returns what recognizes the user of this process; fails where Linux does not say who has a connection. */
        static Peers ofThisUser() throws IOException {
            if (!System.getProperty("os.name").startsWith("Linux")) {
                return new Peers(null);
            }
            Peers peers = new Peers(effectiveUser());
            InetAddress loopback = InetAddress.getLoopbackAddress();
            ServerSocket server = new ServerSocket(0, 1, loopback);
            Socket client = new Socket(loopback, server.getLocalPort());
            try {
                String user = userOf(client.getLocalAddress(), client.getLocalPort(), loopback, client.getPort());
                if (!peers.ownUser.equals(user)) {
                    throw new IOException("Linux does not say here which user has a loopback connection: " + TABLES[0]
                        + " names " + user + ", not " + peers.ownUser
                        + ". Use a metastore that runs (--metastore thrift://host:9083), or none (--metastore none)");
                }
            } finally {
                closeQuietly(client);
                closeQuietly(server);
            }
            return peers;
        }

        /** Returns whether a connection is of the own user or of root. */
        boolean serves(Socket connection) throws IOException {
            if (this.ownUser == null) {
                return true;
            }
            String user;
            try {
                user = userOf(connection.getInetAddress(), connection.getPort(), connection.getLocalAddress(),
                    connection.getLocalPort());
            } catch (IOException unreadable) {
                user = "unknown: " + unreadable;
            }
            if (this.ownUser.equals(user) || ROOT.equals(user)) {
                return true;
            }
            // One line for each user, so that attempts in a loop do not fill the disk.
            if (!this.lastRefused.equals(String.valueOf(user))) {
                this.lastRefused = String.valueOf(user);
                System.err.println("Refused a connection of user " + user + "; the metastore serves user "
                    + this.ownUser);
            }
            return false;
        }

        /** Returns the uid of the socket at an address that is connected to another one; null where no row has it. */
        static String userOf(InetAddress address, int port, InetAddress to, int toPort) throws IOException {
            String local = row(address, port);
            String remote = row(to, toPort);
            // Linux writes the table in pieces, and may skip a row while others in its hash bucket come and go.
            for (int look = 0; look < LOOKS; look++) {
                for (int i = 0; i < TABLES.length; i++) {
                    String user = userIn(Paths.get(TABLES[i], new String[0]), local, remote);
                    if (user != null) {
                        return user;
                    }
                }
            }
            return null;
        }

        private static String userIn(Path table, String local, String remote) throws IOException {
            if (!Files.exists(table, new LinkOption[0])) {
                return null; // a kernel without IPv6
            }
            BufferedReader lines = Files.newBufferedReader(table, StandardCharsets.US_ASCII);
            try {
                for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                    String[] fields = line.trim().split("\\s+");
                    if (fields.length > 7 && fields[3].equals(ESTABLISHED) && withoutMapping(fields[1]).equals(local)
                            && withoutMapping(fields[2]).equals(remote)) {
                        return fields[7];
                    }
                }
            } finally {
                lines.close();
            }
            return null;
        }

        /** Returns an address and port as the table has them: words of 32 bits in the processor's byte order. */
        private static String row(InetAddress address, int port) {
            byte[] bytes = address.getAddress();
            StringBuilder text = new StringBuilder();
            boolean little = ByteOrder.nativeOrder().equals(ByteOrder.LITTLE_ENDIAN);
            for (int i = 0; i < bytes.length; i++) {
                int at = little ? i - i % 4 + 3 - i % 4 : i;
                text.append(hex(bytes[at] & 0xff, 2));
            }
            return text + ":" + hex(port, 4);
        }

        /** Returns a field without the prefix of IPv4 in IPv6, as Java's sockets have it: ::ffff:127.0.0.1. */
        private static String withoutMapping(String field) {
            String mapped = "0000000000000000"
                + (ByteOrder.nativeOrder().equals(ByteOrder.LITTLE_ENDIAN) ? "FFFF0000" : "0000FFFF");
            return field.length() > mapped.length() + 13 - 1 && field.startsWith(mapped)
                ? field.substring(mapped.length()) : field;
        }

        private static String hex(int value, int digits) {
            StringBuilder text = new StringBuilder(Integer.toHexString(value).toUpperCase());
            while (text.length() < digits) {
                text.insert(0, '0');
            }
            return text.toString();
        }

        private static String effectiveUser() throws IOException {
            BufferedReader lines = Files.newBufferedReader(
                Paths.get("/proc/self/status", new String[0]), StandardCharsets.UTF_8);
            try {
                for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                    if (line.startsWith("Uid:")) {
                        return line.trim().split("\\s+")[2];
                    }
                }
            } finally {
                lines.close();
            }
            throw new IOException("/proc/self/status does not name the user of this process");
        }
    }

    /**
     * The metastore's deletion of directories, which deletes nothing: catalog-ext deletes files by itself, by what its
     * index knows, and DROP of a managed table by another client must not delete a folder that a table only names.
     */
    public static class KeepsFiles implements MetaStoreFS {
        public boolean deleteDir(
                FileSystem files, org.apache.hadoop.fs.Path path, boolean recursive, boolean purge,
                org.apache.hadoop.conf.Configuration conf) throws MetaException {
            System.err.println("Kept " + path + ": the embedded metastore deletes no files");
            return false;
        }
    }

    /**
     * Prunes for Hive engines what a filter string cannot say. The list of Hive's functions, which that takes, cannot be
     * loaded from PySpark's jars alone (Hive's LLAP jars are missing); then the engine prunes the partitions itself.
     */
    public static class Expressions extends PartitionExpressionForMetastore {
        public boolean filterPartitionsByExpr(
                List names, List types, byte[] expression, String defaultPartition, List partitions)
                throws MetaException {
            try {
                return super.filterPartitionsByExpr(names, types, expression, defaultPartition, partitions);
            } catch (LinkageError missing) {
                return true;
            }
        }
    }

    /**
     * A file system whose every path is a directory: the metastore keeps locations and looks at nothing.
     *
     * <p>It stands in for stores whose own file system is not on the class path (S3, GCS, ABFS), so that tables there
     * can be recorded without their jars and credentials. Nothing can be read, written or deleted through it.
     */
    public static class LocationsOnly extends FileSystem {
        private URI root;

        public void initialize(URI name, org.apache.hadoop.conf.Configuration conf) throws IOException {
            super.initialize(name, conf);
            this.root = URI.create(name.getScheme() + "://" + name.getAuthority());
        }

        public URI getUri() {
            return this.root;
        }

        public FileStatus getFileStatus(org.apache.hadoop.fs.Path path) throws IOException {
            return new FileStatus(0L, true, 1, 0L, 0L, path);
        }

        public FileStatus[] listStatus(org.apache.hadoop.fs.Path path) throws FileNotFoundException, IOException {
            return new FileStatus[0];
        }

        public boolean mkdirs(org.apache.hadoop.fs.Path path, FsPermission permission) throws IOException {
            return true;
        }

        public FSDataInputStream open(org.apache.hadoop.fs.Path path, int buffer) throws IOException {
            throw refuse(path);
        }

        public FSDataOutputStream create(
                org.apache.hadoop.fs.Path path, FsPermission permission, boolean overwrite, int buffer,
                short replication, long block, Progressable progress) throws IOException {
            throw refuse(path);
        }

        public FSDataOutputStream append(org.apache.hadoop.fs.Path path, int buffer, Progressable progress)
                throws IOException {
            throw refuse(path);
        }

        public boolean rename(org.apache.hadoop.fs.Path source, org.apache.hadoop.fs.Path target) throws IOException {
            throw refuse(source);
        }

        public boolean delete(org.apache.hadoop.fs.Path path, boolean recursive) throws IOException {
            throw refuse(path);
        }

        public void setWorkingDirectory(org.apache.hadoop.fs.Path path) {}

        public org.apache.hadoop.fs.Path getWorkingDirectory() {
            return new org.apache.hadoop.fs.Path(this.root.toString() + "/");
        }

        private static IOException refuse(org.apache.hadoop.fs.Path path) {
            return new IOException("The embedded metastore records locations only and does not touch " + path
                + "; give it the file system's jars and settings to let it");
        }
    }
}
