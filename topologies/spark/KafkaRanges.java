package windbolt;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.OpenOption;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.BigIntVector;
import org.apache.arrow.vector.TimeStampMilliTZVector;
import org.apache.arrow.vector.VarBinaryVector;
import org.apache.arrow.vector.VarCharVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.complex.ListVector;
import org.apache.arrow.vector.complex.StructVector;
import org.apache.arrow.vector.ipc.ArrowStreamWriter;
import org.apache.arrow.vector.types.TimeUnit;
import org.apache.arrow.vector.types.pojo.ArrowType;
import org.apache.arrow.vector.types.pojo.Field;
import org.apache.arrow.vector.types.pojo.FieldType;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeAndComment;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeGenerator$;
import org.apache.spark.sql.catalyst.expressions.codegen.GeneratedClass;
import org.apache.spark.sql.execution.BufferedRowIterator;

/**
 * Reads ranges of offsets without a Spark job: into files, or for a program that adds them up. Compiled on demand
 * (kafka_client.py).
 *
 * A range is read completely, or not at all.
 */
public class KafkaRanges {
    final Properties settings;
    final boolean withHeaders;
    final ConcurrentHashMap partitions = new ConcurrentHashMap();

    public KafkaRanges(Properties settings, boolean withHeaders) {
        this.settings = settings;
        this.withHeaders = withHeaders;
    }

    /**
     * Reads ranges into files. Each line has topic, partition, start, end and file, separated by tabs. Gives up if no
     * record comes for so many milliseconds. Returns the number of records of each range, one per line, or throws.
     */
    public String read(final String folder, String lines, int threads, final long patience) throws Exception {
        final String[] ranges = lines.split("\n");
        final long[] counts = new long[ranges.length];
        finish(new RangeWork(this, ranges, threads) {
            void work(int thread) throws Exception {
                for (int at = next(); at >= 0; at = next()) {
                    String[] range = ranges[at].split("\t");
                    counts[at] = write(openRange(range, patience), folder + "/" + range[4]);
                }
            }
        });
        StringBuilder answer = new StringBuilder();
        for (int at = 0; at < ranges.length; at++) {
            answer.append(counts[at]).append("\n");
        }
        return answer.toString();
    }

    /**
     * Passes the values of ranges, in such lines without a file, to programs (FrameSums.java): one in each thread,
     * which writes the file with its number. A program may stop early. Together they may use Java's memory divided by
     * ``parts``.
     */
    public void addUp(
            String lines, final CodeAndComment code, final String plan, int threads, final long patience, final int parts)
            throws Exception {
        final String[] ranges = lines.split("\n");
        finish(new RangeWork(this, ranges, threads) {
            void work(int thread) throws Exception {
                GeneratedClass made = (GeneratedClass) CodeGenerator$.MODULE$.compile(code)._1();
                Long room = Long.valueOf(Runtime.getRuntime().maxMemory() / parts / this.threads);
                BufferedRowIterator program = (BufferedRowIterator) made.generate(new Object[] {plan, room});
                program.init(thread, new scala.collection.Iterator[] {
                    new ValuesOfRanges(KafkaRanges.this, this, ranges, patience)
                });
                program.hasNext();
            }
        });
    }

    /** The reading of ranges, shared by threads. */
    abstract static class RangeWork extends SharedWork {
        private final KafkaRanges reader;

        RangeWork(KafkaRanges reader, String[] ranges, int threads) {
            super(ranges.length, threads);
            this.reader = reader;
        }

        void stop() {
            for (Iterator each = this.reader.partitions.values().iterator(); each.hasNext();) {
                ((Partition) each.next()).consumer.wakeup();
            }
        }
    }

    /** A consumer ends when its thread is interrupted, so no other thread need end it. */
    private void finish(RangeWork ranges) throws Exception {
        try {
            if (ranges.threads == 1) {
                ranges.runHere();
            } else {
                ranges.run("windbolt-kafka-");
            }
        } catch (InterruptedException stopped) { // a consumer that was not waiting would end at its next read
            close();
            throw stopped;
        }
    }

    public void close() {
        for (Iterator each = this.partitions.values().iterator(); each.hasNext();) {
            disconnect((Partition) each.next());
        }
    }

    /** The partition gets another consumer at its next read. */
    void disconnect(Partition partition) {
        this.partitions.remove(partition.place);
        try {
            partition.consumer.close(Duration.ofSeconds(0));
        } catch (KafkaException problem) { // its connection ends anyway
        }
    }

    Records openRange(String[] range, long patience) {
        TopicPartition place = new TopicPartition(range[0], Integer.parseInt(range[1]));
        Partition partition = (Partition) this.partitions.get(place);
        if (partition == null) {
            partition = new Partition(place, this.settings);
            this.partitions.put(place, partition);
        }
        return new Records(this, partition, Long.parseLong(range[2]), Long.parseLong(range[3]), patience);
    }

    long write(Records records, String path) throws IOException {
        RecordFile file = new RecordFile(path, this.withHeaders);
        try {
            while (records.hasNext()) {
                file.add((ConsumerRecord) records.next());
            }
            return file.records;
        } finally {
            file.close();
        }
    }

    /** A partition, and the records that it has delivered beyond the last range. */
    static class Partition {
        final TopicPartition place;
        final KafkaConsumer consumer;
        final ArrayDeque fetched = new ArrayDeque();
        long position = -1;

        Partition(TopicPartition place, Properties settings) {
            this.place = place;
            this.consumer = new KafkaConsumer(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            this.consumer.assign(Collections.singletonList(place));
        }
    }

    /** The records of a partition from one offset to another. */
    static class Records extends scala.collection.AbstractIterator {
        final KafkaRanges reader;
        final Partition partition;
        final long end, patience;
        long lastRecordAt = System.nanoTime();

        Records(KafkaRanges reader, Partition partition, long start, long end, long patience) {
            this.reader = reader;
            this.partition = partition;
            this.end = end;
            this.patience = patience;
            if (partition.position != start) {
                partition.fetched.clear();
                partition.consumer.seek(partition.place, start);
            }
            partition.position = -1;
        }

        /** Disconnects the partition if reading fails. */
        public boolean hasNext() {
            try {
                return hasRecord();
            } catch (RuntimeException failure) {
                this.reader.disconnect(this.partition);
                throw failure;
            }
        }

        private boolean hasRecord() {
            while (true) {
                ConsumerRecord first = (ConsumerRecord) this.partition.fetched.peek();
                if (first != null && first.offset() < this.end) {
                    return true;
                }
                // The position may be beyond the last record, since transactions and compaction leave gaps.
                if (first != null || this.partition.consumer.position(this.partition.place) >= this.end) {
                    this.partition.position = this.end;
                    return false;
                }
                poll();
            }
        }

        public Object next() {
            return this.partition.fetched.poll();
        }

        private void poll() {
            List records = this.partition.consumer.poll(Duration.ofMillis(this.patience)).records(this.partition.place);
            long now = System.nanoTime();
            if (records.size() > 0) {
                this.partition.fetched.addAll(records);
                this.lastRecordAt = now;
            } else if (now - this.lastRecordAt >= this.patience * 1000000L
                    && this.partition.consumer.position(this.partition.place) < this.end) {
                throw new IllegalStateException(
                    this.partition.place + ": no record came for " + this.patience + " ms");
            }
        }
    }

    /** The values of ranges, one after another, as rows of one column. */
    static class ValuesOfRanges extends scala.collection.AbstractIterator {
        /** Kafka's largest timestamp, in milliseconds, that fits into microseconds. */
        static final long FURTHEST = Long.MAX_VALUE / 1000;

        final KafkaRanges reader;
        final SharedWork work;
        final String[] ranges;
        final long patience;
        private Records records = null;

        ValuesOfRanges(KafkaRanges reader, SharedWork work, String[] ranges, long patience) {
            this.reader = reader;
            this.work = work;
            this.ranges = ranges;
            this.patience = patience;
        }

        public boolean hasNext() {
            while (this.records == null || !this.records.hasNext()) {
                int at = this.work.next();
                if (at < 0) {
                    return false;
                }
                this.records = this.reader.openRange(this.ranges[at].split("\t"), this.patience);
            }
            return true;
        }

        /** Null for a record whose timestamp makes it bad, and for one without a value. */
        public Object next() {
            ConsumerRecord record = (ConsumerRecord) this.records.next();
            boolean fits = record.timestamp() <= FURTHEST && record.timestamp() >= -FURTHEST;
            return new GenericInternalRow(new Object[] {fits ? record.value() : null});
        }
    }

    /** A file of records as an Arrow stream, some thousand in a batch. The driver's Python adds topic and partition. */
    static class RecordFile {
        static final int ROWS = 1 << 15;
        static final int BYTES = 1 << 24;

        final FileChannel channel;
        final RootAllocator memory = new RootAllocator(Long.MAX_VALUE);
        final VectorSchemaRoot columns;
        final BigIntVector offsets;
        final TimeStampMilliTZVector timestamps;
        final VarBinaryVector keys;
        final VarBinaryVector values;
        final ArrowStreamWriter writer;
        ListVector headers = null;
        StructVector pairs = null;
        long records = 0;
        private int rows = 0;
        private long bytes = 0;

        RecordFile(String path, boolean withHeaders) throws IOException {
            List fields = new ArrayList();
            fields.add(field("offset", new ArrowType.Int(64, true), null));
            fields.add(field("timestamp", new ArrowType.Timestamp(TimeUnit.MILLISECOND, "UTC"), null));
            fields.add(field("key", new ArrowType.Binary(), null));
            fields.add(field("value", new ArrowType.Binary(), null));
            if (withHeaders) {
                List pair = new ArrayList();
                pair.add(field("key", new ArrowType.Utf8(), null));
                pair.add(field("value", new ArrowType.Binary(), null));
                List item = Collections.singletonList(field("item", new ArrowType.Struct(), pair));
                fields.add(field("headers", new ArrowType.List(), item));
            }
            this.columns = VectorSchemaRoot.create(new Schema((Iterable) fields), this.memory);
            this.offsets = (BigIntVector) this.columns.getVector("offset");
            this.timestamps = (TimeStampMilliTZVector) this.columns.getVector("timestamp");
            this.keys = (VarBinaryVector) this.columns.getVector("key");
            this.values = (VarBinaryVector) this.columns.getVector("value");
            if (withHeaders) {
                this.headers = (ListVector) this.columns.getVector("headers");
                this.pairs = (StructVector) this.headers.getDataVector();
            }
            this.channel = FileChannel.open(Paths.get(path, new String[0]), new OpenOption[] {StandardOpenOption.WRITE});
            this.writer = new ArrowStreamWriter(this.columns, null, this.channel);
            this.writer.start();
        }

        static Field field(String name, ArrowType type, List children) {
            return new Field(name, FieldType.nullable(type), children);
        }

        void add(ConsumerRecord record) throws IOException {
            this.offsets.setSafe(this.rows, record.offset());
            this.timestamps.setSafe(this.rows, record.timestamp());
            set(this.keys, this.rows, (byte[]) record.key());
            set(this.values, this.rows, (byte[]) record.value());
            if (this.headers != null) {
                addHeaders(record.headers().iterator());
            }
            this.rows++;
            this.records++;
            if (this.rows == ROWS || this.bytes >= BYTES) {
                flush();
            }
        }

        /** Null without headers, as in Spark. */
        private void addHeaders(Iterator each) {
            if (!each.hasNext()) {
                return;
            }
            VarCharVector names = (VarCharVector) this.pairs.getChild("key");
            VarBinaryVector texts = (VarBinaryVector) this.pairs.getChild("value");
            int start = this.headers.startNewValue(this.rows);
            int at = start;
            for (; each.hasNext(); at++) {
                Header header = (Header) each.next();
                byte[] name = header.key().getBytes(StandardCharsets.UTF_8);
                this.pairs.setIndexDefined(at);
                names.setSafe(at, name);
                set(texts, at, header.value());
                this.bytes += name.length;
            }
            this.headers.endValue(this.rows, at - start);
        }

        void close() throws IOException {
            try {
                flush();
                this.writer.end();
            } finally { // after an interrupt the channel fails, and perhaps the writer too
                try {
                    this.writer.close();
                } finally {
                    this.columns.close();
                    this.memory.close();
                    this.channel.close();
                }
            }
        }

        private void set(VarBinaryVector column, int row, byte[] value) {
            if (value != null) {
                column.setSafe(row, value);
                this.bytes += value.length;
            }
        }

        private void flush() throws IOException {
            if (this.rows > 0) {
                this.columns.setRowCount(this.rows);
                this.writer.writeBatch();
                this.columns.clear();
                this.rows = 0;
                this.bytes = 0;
            }
        }
    }
}
