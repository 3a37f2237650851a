package windbolt;

import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsAdmissionControl;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A stream without rows, whose batches a Python function plans (source.py). */
public class PlannedFiles
    implements TableProvider, SupportsRead, ScanBuilder, Scan, SupportsAdmissionControl, SupportsTriggerAvailableNow,
        MicroBatchStream {
    static final Map PLANNERS = new ConcurrentHashMap();
    Function planner;
    String path;

    /** Constructor for Spark, which makes the source by class name. */
    public PlannedFiles() {
    }

    /** Returns a streaming DataFrame with the batches of a function. */
    public Object open(SparkSession spark, Function planner, String path) {
        String id = UUID.randomUUID().toString();
        PLANNERS.put(id, planner);
        Thread thread = Thread.currentThread();
        ClassLoader before = thread.getContextClassLoader();
        thread.setContextClassLoader(getClass().getClassLoader());
        try {
            return spark.readStream().format(getClass().getName()).option("planner", id).option("input", path).load();
        } finally {
            thread.setContextClassLoader(before);
            PLANNERS.remove(id);
        }
    }

    public StructType inferSchema(CaseInsensitiveStringMap options) {
        return new StructType().add("path", DataTypes.StringType);
    }

    public Table getTable(StructType schema, Transform[] partitioning, Map options) {
        planner = (Function) PLANNERS.get(options.get("planner"));
        path = (String) options.get("input");
        return this;
    }

    public String name() {
        return toString();
    }

    public String toString() {
        return "PlannedFiles[" + path + "]";
    }

    public StructType schema() {
        return inferSchema(null);
    }

    public StructType readSchema() {
        return inferSchema(null);
    }

    public Set capabilities() {
        Set found = new HashSet();
        found.add(TableCapability.MICRO_BATCH_READ);
        return found;
    }

    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
        return this;
    }

    public Scan build() {
        return this;
    }

    public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
        return this;
    }

    public void prepareForTriggerAvailableNow() {
        planner.apply("once");
    }

    public Offset latestOffset(Offset start, ReadLimit limit) {
        String found = (String) planner.apply(start.json());
        return found == null ? null : deserializeOffset(found);
    }

    public Offset latestOffset() {
        throw new UnsupportedOperationException("latestOffset(Offset, ReadLimit) is called in its place");
    }

    public Offset initialOffset() {
        return deserializeOffset("{\"logOffset\":-1}");
    }

    public Offset deserializeOffset(final String text) {
        return new Offset() {
            public String json() {
                return text;
            }
        };
    }

    public InputPartition[] planInputPartitions(Offset start, Offset end) {
        return new InputPartition[0];
    }

    public PartitionReaderFactory createReaderFactory() {
        return null;
    }

    public void commit(Offset end) {
    }

    public void stop() {
    }
}
