/**
 * Starts Trino: what the main class of its distribution does, which is in no repository.
 *
 * <p>Compiled at start by Janino. The argument is the version that Trino says it is.
 */
public class Trino {
    public static void main(String[] arguments) {
        new io.trino.server.Server().start(arguments[0]);
    }
}
