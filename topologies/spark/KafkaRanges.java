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
import java.util.concurrent.atomic.AtomicInteger;
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
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads ranges of offsets into files, without a Spark job. Compiled when it is needed (kafka_client.py).
 *
 * A range is either read as a whole, or not at all.
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
     * Reads ranges, given in lines of topic, partition, start, end and file, with tabs between. Gives up where no record
     * comes for so many milliseconds. Returns the number of records of each range, in lines, or throws.
     */
    public String read(final String folder, String lines, final int threads, final long patience) throws Exception {
        final String[] ranges = lines.split("\n");
        final long[] counts = new long[ranges.length];
        final Throwable[] failures = new Throwable[ranges.length];
        final AtomicInteger next = new AtomicInteger();
        Runnable work = new Runnable() {
            public void run() {
                for (int at = next.getAndIncrement(); at < ranges.length; at = next.getAndIncrement()) {
                    try {
                        counts[at] = readOne(folder, ranges[at].split("\t"), patience);
                    } catch (Throwable failure) {
                        failures[at] = failure;
                    }
                }
            }
        };
        Thread[] helpers = new Thread[Math.min(threads, ranges.length) - 1];
        for (int at = 0; at < helpers.length; at++) {
            helpers[at] = new Thread(work, "windbolt-kafka-" + at);
            helpers[at].setDaemon(true);
            helpers[at].start();
        }
        work.run();
        StringBuilder answer = new StringBuilder();
        for (int at = 0; at < helpers.length; at++) {
            helpers[at].join();
        }
        for (int at = 0; at < ranges.length; at++) {
            if (failures[at] != null) {
                throw new IOException(ranges[at] + ": " + failures[at], failures[at]);
            }
            answer.append(counts[at]).append("\n");
        }
        return answer.toString();
    }

    public void close() {
        for (Iterator each = this.partitions.values().iterator(); each.hasNext();) {
            ((Partition) each.next()).consumer.close(Duration.ofSeconds(0));
        }
        this.partitions.clear();
    }

    long readOne(String folder, String[] range, long patience) throws IOException {
        TopicPartition place = new TopicPartition(range[0], Integer.parseInt(range[1]));
        Partition partition = (Partition) this.partitions.get(place);
        if (partition == null) {
            partition = new Partition(place, this.settings);
            this.partitions.put(place, partition);
        }
        RecordFile file = new RecordFile(folder + "/" + range[4], this.withHeaders);
        try {
            partition.read(Long.parseLong(range[2]), Long.parseLong(range[3]), file, patience);
            return file.records;
        } catch (RuntimeException failure) {
            this.partitions.remove(place);
            partition.consumer.close(Duration.ofSeconds(0));
            throw failure;
        } finally {
            file.close();
        }
    }

    /** A partition, and what it has delivered beyond the last range. */
    static class Partition {
        final TopicPartition place;
        final KafkaConsumer consumer;
        final ArrayDeque ahead = new ArrayDeque();
        long position = -1;

        Partition(TopicPartition place, Properties settings) {
            this.place = place;
            this.consumer = new KafkaConsumer(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            this.consumer.assign(Collections.singletonList(place));
        }

        void read(long start, long end, RecordFile file, long patience) throws IOException {
            if (this.position != start) {
                this.ahead.clear();
                this.consumer.seek(this.place, start);
            }
            this.position = -1;
            long silent = System.nanoTime();
            while (true) {
                while (!this.ahead.isEmpty() && ((ConsumerRecord) this.ahead.peek()).offset() < end) {
                    file.add((ConsumerRecord) this.ahead.poll());
                }
                // A position beyond the last record: transactions and compaction leave gaps.
                if (!this.ahead.isEmpty() || this.consumer.position(this.place) >= end) {
                    break;
                }
                List records = this.consumer.poll(Duration.ofMillis(patience)).records(this.place);
                long now = System.nanoTime();
                if (records.size() > 0) {
                    this.ahead.addAll(records);
                    silent = now;
                } else if (now - silent >= patience * 1000000L && this.consumer.position(this.place) < end) {
                    throw new IllegalStateException("no record came for " + patience + " ms");
                }
            }
            this.position = end;
        }
    }

    /** Records as a stream of Arrow's, some thousand in a batch; the driver's Python adds topic and partition. */
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

        /** Null where there are none, as with Spark. */
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
            } finally {
                this.writer.close();
                this.columns.close();
                this.memory.close();
                this.channel.close();
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
