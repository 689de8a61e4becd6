import java.util.Collections;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.metastore.HMSHandler;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.TransactionalMetaStoreEventListener;
import org.apache.hadoop.hive.metastore.api.MetaException;
import org.apache.hadoop.hive.metastore.api.NotificationEvent;
import org.apache.hadoop.hive.metastore.api.Partition;
import org.apache.hadoop.hive.metastore.api.Table;
import org.apache.hadoop.hive.metastore.events.AddPartitionEvent;
import org.apache.hadoop.hive.metastore.events.AlterPartitionEvent;
import org.apache.hadoop.hive.metastore.events.AlterTableEvent;
import org.apache.hadoop.hive.metastore.events.CreateTableEvent;
import org.apache.hadoop.hive.metastore.events.DropPartitionEvent;
import org.apache.hadoop.hive.metastore.events.DropTableEvent;
import org.apache.hadoop.hive.metastore.events.InsertEvent;
import org.apache.hadoop.hive.metastore.messaging.EventMessage;
import org.apache.hadoop.hive.metastore.messaging.MessageBuilder;
import org.apache.hadoop.hive.metastore.messaging.MessageEncoder;
import org.apache.hadoop.hive.metastore.messaging.MessageFactory;

/**
 * A metastore of release 4 that keeps its log of events: Hive's listener for that is published for Java 21 alone.
 *
 * <p>The messages, their encoding and the log are the server's own; what is here calls them, as Hive's listener does.
 * Compiled at start by Janino, which knows no lambdas. Arguments are those of Hive's main class.
 */
public class LoggedMetastore {
    public static void main(String[] arguments) throws Throwable {
        Thread.currentThread().setContextClassLoader(LoggedMetastore.class.getClassLoader());
        HiveMetaStore.main(arguments);
    }

    public static class Listener extends TransactionalMetaStoreEventListener {
        private final Configuration conf;

        public Listener(Configuration conf) {
            super(conf);
            this.conf = conf;
        }

        public void onCreateTable(CreateTableEvent event) throws MetaException {
            Iterator files = Collections.EMPTY_LIST.iterator();
            emit(event.getTable(), MessageBuilder.getInstance().buildCreateTableMessage(event.getTable(), files));
        }

        public void onDropTable(DropTableEvent event) throws MetaException {
            emit(event.getTable(), MessageBuilder.getInstance().buildDropTableMessage(event.getTable()));
        }

        public void onAlterTable(AlterTableEvent event) throws MetaException {
            Table before = event.getOldTable();
            emit(before, MessageBuilder.getInstance().buildAlterTableMessage(
                before, event.getNewTable(), event.getIsTruncateOp(), event.getWriteId()));
        }

        public void onAddPartition(AddPartitionEvent event) throws MetaException {
            Iterator files = Collections.EMPTY_LIST.iterator();
            emit(event.getTable(), MessageBuilder.getInstance().buildAddPartitionMessage(
                event.getTable(), event.getPartitionIterator(), files));
        }

        public void onDropPartition(DropPartitionEvent event) throws MetaException {
            emit(event.getTable(), MessageBuilder.getInstance().buildDropPartitionMessage(
                event.getTable(), event.getPartitionIterator()));
        }

        public void onAlterPartition(AlterPartitionEvent event) throws MetaException {
            emit(event.getTable(), MessageBuilder.getInstance().buildAlterPartitionMessage(
                event.getTable(), event.getOldPartition(), event.getNewPartition(), event.getIsTruncateOp(),
                event.getWriteId()));
        }

        public void onInsert(InsertEvent event) throws MetaException {
            Iterator files = Collections.EMPTY_LIST.iterator();
            emit(event.getTableObj(), MessageBuilder.getInstance().buildInsertMessage(
                event.getTableObj(), event.getPartitionObj(), event.isReplace(), files));
        }

        private void emit(Table table, EventMessage message) throws MetaException {
            MessageEncoder encoder = MessageFactory.getDefaultInstance(conf);
            int now = (int) (System.currentTimeMillis() / 1000);
            String text = encoder.getSerializer().serialize(message);
            NotificationEvent event = new NotificationEvent(0L, now, message.getEventType().toString(), text);
            event.setCatName(table.getCatName());
            event.setDbName(table.getDbName());
            event.setTableName(table.getTableName());
            event.setMessageFormat(encoder.getMessageFormat());
            HMSHandler.getMSForConf(conf).addNotificationEvent(event);
        }
    }
}
