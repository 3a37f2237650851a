package windbolt;

import java.lang.reflect.Constructor;
import java.util.ArrayList;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.Dependency;
import org.apache.spark.Partition;
import org.apache.spark.TaskContext$;
import org.apache.spark.TaskContextImpl;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeAndComment;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeGenerator$;
import org.apache.spark.sql.catalyst.expressions.codegen.GeneratedClass;
import org.apache.spark.sql.execution.BufferedRowIterator;

/**
 * Called in the driver: finds the columns that form the rows of a micro-batch, and has them added up. Compiled on
 * demand (frame_sums.py).
 */
public class ScannedColumns {
    public ScannedColumns() {
    }

    /**
     * Returns the columns that form the rows of a query's present batch; null if Spark's plan is more than a scan of
     * columns and a selection among them. The RDD of the batch's rows must be made from the same scan.
     */
    public BatchColumns find(Object query, Object batch) throws Exception {
        Object plan = called(called(query, "lastExecution"), "executedPlan");
        ArrayList wanted = identities(called(plan, "output"));
        boolean rowsMade = false;
        while (true) {
            String name = plan.getClass().getSimpleName();
            if (name.equals("ProjectExec")) {
                wanted = chosen(wanted, called(plan, "projectList"));
            } else if (name.equals("ColumnarToRowExec")) {
                rowsMade = true;
            } else if (!name.equals("WholeStageCodegenExec") && !name.equals("InputAdapter")) {
                break;
            }
            if (wanted == null) {
                return null;
            }
            plan = only(called(plan, "children"));
        }
        if (!rowsMade || size(called(plan, "children")) > 0 || !called(plan, "supportsColumnar").equals(Boolean.TRUE)) {
            return null;
        }
        ArrayList there = identities(called(plan, "output"));
        StringBuilder places = new StringBuilder();
        for (int at = 0; at < wanted.size(); at++) {
            int place = there.indexOf(wanted.get(at));
            if (place < 0) {
                return null;
            }
            places.append(at == 0 ? "" : " ").append(place);
        }
        Object scan = only(called(plan, "inputRDDs"));
        RDD above = (RDD) called(called(called(batch, "queryExecution"), "logical"), "rdd");
        while (size(above.dependencies()) == 1) {
            RDD parent = ((Dependency) only(above.dependencies())).rdd();
            if (parent == scan) {
                return new BatchColumns(plan, above, parent, places.toString());
            }
            above = parent;
        }
        return null;
    }

    /** By identity of columns, the columns from which a projection takes them; null if one is computed. */
    private static ArrayList chosen(ArrayList wanted, Object projection) throws Exception {
        ArrayList found = new ArrayList(wanted);
        for (scala.collection.Iterator each = ((scala.collection.Iterable) projection).iterator(); each.hasNext();) {
            Object column = each.next(), of = column;
            if (column.getClass().getSimpleName().equals("Alias")) {
                of = called(column, "child");
            }
            for (int at = 0; at < found.size(); at++) {
                if (wanted.get(at).equals(called(column, "exprId"))) {
                    if (!of.getClass().getSimpleName().equals("AttributeReference")) {
                        return null;
                    }
                    found.set(at, called(of, "exprId"));
                }
            }
        }
        return found;
    }

    private static ArrayList identities(Object columns) throws Exception {
        ArrayList found = new ArrayList();
        for (scala.collection.Iterator each = ((scala.collection.Iterable) columns).iterator(); each.hasNext();) {
            found.add(called(each.next(), "exprId"));
        }
        return found;
    }

    private static Object only(Object one) {
        return ((scala.collection.Iterable) one).iterator().next();
    }

    private static int size(Object many) {
        return ((scala.collection.Iterable) many).size();
    }

    /** Calls a method without arguments by name, because the classes of Spark's plans move between versions. */
    static Object called(Object object, String name) throws Exception {
        return object.getClass().getMethod(name, new Class[0]).invoke(object, new Object[0]);
    }

    /** The columns of one batch. */
    public static final class BatchColumns {
        private final Object plan;
        private final RDD counted, scan;
        private final String places;

        BatchColumns(Object plan, RDD counted, RDD scan, String places) {
            this.plan = plan;
            this.counted = counted;
            this.scan = scan;
            this.places = places;
        }

        /**
         * Returns numbers separated by spaces: the count of partitions; 1 if threads of the driver may read them, else
         * 0; and the indices of the rows' columns among those that are read.
         */
        public String described() throws Exception {
            return this.scan.partitions().length + " " + (this.isOfFiles() ? 1 : 0) + " " + this.places;
        }

        /** Returns batches of columns, for a job whose tasks count the rows for Spark's progress. */
        public RDD forJob() {
            return this.counted;
        }

        /**
         * True if several threads may share an object of which each task gets a copy; known for Spark's own file
         * readers.
         */
        private boolean isOfFiles() throws Exception {
            if (!this.plan.getClass().getSimpleName().equals("FileSourceScanExec")) {
                return false;
            }
            String format = called(called(this.plan, "relation"), "fileFormat").getClass().getName();
            return format.equals("org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat")
                || format.equals("org.apache.spark.sql.execution.datasources.orc.OrcFileFormat");
        }

        /**
         * Lets threads of the driver run a program (FrameSums.java) over each partition, without a job. Returns the
         * number of rows that were read.
         */
        public long addUp(CodeAndComment code, String plan, int threads) throws Exception {
            PartitionSums sums = new PartitionSums(this.scan, code, plan, threads);
            sums.run("windbolt-sums-");
            return sums.rows.get();
        }

        /** Makes Spark's progress count rows that no job has read; only once, however often a batch is tried. */
        public void count(long rows) throws Exception {
            Object metric = ((scala.collection.immutable.Map) called(this.plan, "metrics")).apply("numOutputRows");
            if (called(metric, "value").equals(Long.valueOf(0))) {
                metric.getClass().getMethod("add", new Class[] {long.class})
                    .invoke(metric, new Object[] {Long.valueOf(rows)});
            }
        }
    }

    /** The work of adding up each partition. To Spark's code its threads are tasks. */
    static final class PartitionSums extends SharedWork {
        /** Java's memory divided by this is for the sums of all threads. */
        private static final int PARTS = 4;
        /** The driver's number among tasks, under which it holds locks on blocks such as broadcast settings. */
        private static final long DRIVER = -1024;

        /** Number of rows that were read. */
        final AtomicLong rows = new AtomicLong();
        private final RDD scan;
        private final Partition[] partitions;
        private final Properties properties;
        private final CodeAndComment code;
        private final String plan;
        private final TaskContextImpl[] tasks;
        private boolean stopped = false;

        PartitionSums(RDD scan, CodeAndComment code, String plan, int threads) throws Exception {
            super(scan.partitions().length, threads);
            this.scan = scan;
            this.partitions = scan.partitions();
            this.properties = (Properties) called(scan.sparkContext(), "getLocalProperties");
            this.code = code;
            this.plan = plan;
            this.tasks = new TaskContextImpl[this.threads];
        }

        void work(int thread) throws Throwable {
            GeneratedClass made = (GeneratedClass) CodeGenerator$.MODULE$.compile(this.code)._1();
            Long room = Long.valueOf(Runtime.getRuntime().maxMemory() / PARTS / this.threads);
            for (int at = next(); at >= 0; at = next()) {
                BufferedRowIterator program = (BufferedRowIterator) made.generate(new Object[] {this.plan, room});
                this.read(program, this.partitions[at], this.begin(thread, this.partitions[at]));
            }
        }

        private void read(BufferedRowIterator program, Partition partition, TaskContextImpl begun) throws Throwable {
            scala.Option problem = scala.Option.apply(null);
            TaskContext$.MODULE$.setTaskContext(begun);
            try {
                scala.collection.Iterator batches = this.scan.iterator(partition, begun);
                program.init(partition.index(), new scala.collection.Iterator[] {batches});
                program.hasNext();
            } catch (Throwable thrown) {
                problem = scala.Option.apply(thrown);
                begun.markTaskFailed(thrown);
                throw thrown;
            } finally {
                try {
                    begun.markTaskCompleted(problem); // closes the files
                } finally {
                    TaskContext$.MODULE$.unset();
                }
            }
            this.rows.addAndGet(begun.taskMetrics().inputMetrics().recordsRead());
        }

        /** A task without memory of Spark's. Its last two arguments are for resources, of which it has none. */
        private synchronized TaskContextImpl begin(int thread, Partition partition) throws Exception {
            Constructor constructor = TaskContextImpl.class.getConstructors()[0];
            Object cores = constructor.getParameterTypes()[10] == int.class
                ? (Object) Integer.valueOf(1) : scala.math.BigDecimal.valueOf(1L);
            this.tasks[thread] = (TaskContextImpl) constructor.newInstance(new Object[] {
                Integer.valueOf(0), Integer.valueOf(0), Integer.valueOf(partition.index()), Long.valueOf(DRIVER),
                Integer.valueOf(0), Integer.valueOf(this.partitions.length), null, this.properties, null,
                TaskMetrics.empty(), cores, scala.collection.immutable.Map$.MODULE$.empty()
            });
            if (this.stopped) {
                interrupt(this.tasks[thread]);
            }
            return this.tasks[thread];
        }

        synchronized void stop() {
            this.stopped = true;
            for (int thread = 0; thread < this.tasks.length; thread++) {
                if (this.tasks[thread] != null) {
                    interrupt(this.tasks[thread]);
                }
            }
        }

        private static void interrupt(TaskContextImpl task) {
            task.markInterrupted("the query is stopped");
        }
    }
}
