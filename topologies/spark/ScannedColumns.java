package windbolt;

import java.lang.reflect.Constructor;
import java.util.ArrayList;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicInteger;
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
 * In the driver: finds the columns that the rows of a micro-batch are made of, and has them added up. Compiled when it is
 * needed (frame_sums.py).
 */
public class ScannedColumns {
    public ScannedColumns() {
    }

    /**
     * Returns the columns behind the rows of the present batch of a query; null where Spark's plan is more than a scan of
     * columns, of which rows are made, and a choice among them. The RDD is that of the rows: it has to be made from this
     * very scan.
     */
    public Found find(Object query, RDD rows) throws Exception {
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
        RDD above = rows;
        while (size(above.dependencies()) == 1) {
            RDD parent = ((Dependency) only(above.dependencies())).rdd();
            if (parent == scan) {
                return new Found(plan, above, parent, places.toString());
            }
            above = parent;
        }
        return null;
    }

    /** For columns by their identity those that a projection takes them from; null where one is computed. */
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

    /** Calls a method without arguments by its name: the classes of Spark's plans have other places in each version. */
    static Object called(Object object, String name) throws Exception {
        return object.getClass().getMethod(name, new Class[0]).invoke(object, new Object[0]);
    }

    /** The columns of one batch. */
    public static final class Found {
        /** One part in so many of Java's memory is for the sums of all threads. */
        private static final int PARTS = 4;

        private final Object plan;
        private final RDD counted, scan;
        private final String places;

        Found(Object plan, RDD counted, RDD scan, String places) {
            this.plan = plan;
            this.counted = counted;
            this.scan = scan;
            this.places = places;
        }

        /** The places of the columns of the rows among those that are read. */
        public String places() {
            return this.places;
        }

        /** Batches of columns, for a job: its tasks count the rows for Spark's progress. */
        public RDD forJob() {
            return this.counted;
        }

        /**
         * True if several threads may read at once what tasks get a copy each of: known of what Spark itself reads files
         * with.
         */
        public boolean isOfFiles() throws Exception {
            if (!this.plan.getClass().getSimpleName().equals("FileSourceScanExec")) {
                return false;
            }
            String format = called(called(this.plan, "relation"), "fileFormat").getClass().getName();
            return format.equals("org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat")
                || format.equals("org.apache.spark.sql.execution.datasources.orc.OrcFileFormat");
        }

        /**
         * Has threads of the driver run a program (FrameSums.java) over each partition, without a job. Returns how many
         * rows were read.
         */
        public long addUp(CodeAndComment code, String plan, int threads) throws Exception {
            Partition[] partitions = this.scan.partitions();
            Properties properties = (Properties) called(this.scan.sparkContext(), "getLocalProperties");
            AtomicInteger next = new AtomicInteger();
            Reader[] readers = new Reader[Math.min(threads, partitions.length)];
            Long room = Long.valueOf(Runtime.getRuntime().maxMemory() / PARTS / Math.max(1, readers.length));
            Object[] given = {plan, room};
            for (int at = 0; at < readers.length; at++) {
                readers[at] = new Reader("windbolt-sums-" + at, this.scan, partitions, next, properties, code, given);
                readers[at].setDaemon(true);
                readers[at].start();
            }
            boolean interrupted = false;
            long rows = 0;
            for (int at = 0; at < readers.length; at++) {
                while (readers[at].isAlive()) {
                    try {
                        readers[at].join();
                    } catch (InterruptedException stop) { // the query is stopped
                        interrupted = true;
                        next.set(partitions.length);
                        for (int each = 0; each < readers.length; each++) {
                            readers[each].stopReading();
                        }
                    }
                }
                rows += readers[at].rows;
            }
            if (interrupted) {
                throw new InterruptedException();
            }
            for (int at = 0; at < readers.length; at++) {
                if (readers[at].failure != null) {
                    throw new Exception(readers[at].failure.toString(), readers[at].failure);
                }
            }
            return rows;
        }

        /** Has Spark's progress count rows that no job has read; once, however often a batch is tried. */
        public void count(long rows) throws Exception {
            Object metric = ((scala.collection.immutable.Map) called(this.plan, "metrics")).apply("numOutputRows");
            if (called(metric, "value").equals(Long.valueOf(0))) {
                metric.getClass().getMethod("add", new Class[] {long.class})
                    .invoke(metric, new Object[] {Long.valueOf(rows)});
            }
        }
    }

    /** A thread that takes one partition after the other, and is to Spark's code a task. */
    static final class Reader extends Thread {
        /** The number of the driver among tasks: its locks of blocks, such as broadcast settings, are under it. */
        private static final long DRIVER = -1024;

        private final RDD scan;
        private final Partition[] partitions;
        private final AtomicInteger next;
        private final Properties properties;
        private final CodeAndComment code;
        private final Object[] given;
        private TaskContextImpl task = null;
        private boolean stopped = false;
        Throwable failure = null;
        long rows = 0;

        Reader(
            String name, RDD scan, Partition[] partitions, AtomicInteger next, Properties properties,
            CodeAndComment code, Object[] given
        ) {
            super(name);
            this.scan = scan;
            this.partitions = partitions;
            this.next = next;
            this.properties = properties;
            this.code = code;
            this.given = given;
        }

        public void run() {
            try {
                GeneratedClass made = (GeneratedClass) CodeGenerator$.MODULE$.compile(this.code)._1();
                for (int at = this.next.getAndIncrement(); at < this.partitions.length; at = this.next.getAndIncrement()) {
                    this.read((BufferedRowIterator) made.generate(this.given), this.partitions[at]);
                }
            } catch (Throwable problem) {
                this.failure = problem;
                this.next.set(this.partitions.length); // the others need read no more
            }
        }

        private void read(BufferedRowIterator program, Partition partition) throws Throwable {
            TaskContextImpl begun = begin(partition);
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
            this.rows += begun.taskMetrics().inputMetrics().recordsRead();
        }

        /** A task that has no memory of Spark's. Its last two arguments are for resources, of which it has none. */
        private synchronized TaskContextImpl begin(Partition partition) throws Exception {
            Constructor constructor = TaskContextImpl.class.getConstructors()[0];
            Object cores = constructor.getParameterTypes()[10] == int.class
                ? (Object) Integer.valueOf(1) : scala.math.BigDecimal.valueOf(1L);
            this.task = (TaskContextImpl) constructor.newInstance(new Object[] {
                Integer.valueOf(0), Integer.valueOf(0), Integer.valueOf(partition.index()), Long.valueOf(DRIVER),
                Integer.valueOf(0), Integer.valueOf(this.partitions.length), null, this.properties, null,
                TaskMetrics.empty(), cores, scala.collection.immutable.Map$.MODULE$.empty()
            });
            if (this.stopped) {
                this.task.markInterrupted("the query is stopped");
            }
            return this.task;
        }

        synchronized void stopReading() {
            this.stopped = true;
            if (this.task != null) {
                this.task.markInterrupted("the query is stopped");
            }
        }
    }
}
