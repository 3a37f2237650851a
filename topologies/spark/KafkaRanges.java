package windbolt;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.OpenOption;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads ranges of offsets into files, without a Spark job. Compiled when it is needed (kafka_client.py), which is also
 * where the layout of the files is read (engine/kafka_records.py).
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

    /** Records as columns, some thousand at a time. */
    static class RecordFile {
        static final int ROWS = 1 << 15;
        static final int BYTES = 1 << 24;

        final FileChannel channel;
        final boolean withHeaders;
        long records = 0;
        private final long[] offsets = new long[ROWS];
        private final long[] timestamps = new long[ROWS];
        private final int[] headerCounts = new int[ROWS];
        private int rows = 0;
        private final Column keys = new Column();
        private final Column values = new Column();
        private final Column headerKeys = new Column();
        private final Column headerValues = new Column();

        RecordFile(String path, boolean withHeaders) throws IOException {
            this.withHeaders = withHeaders;
            this.channel = FileChannel.open(Paths.get(path, new String[0]), new OpenOption[] {StandardOpenOption.WRITE});
        }

        void add(ConsumerRecord record) throws IOException {
            this.offsets[this.rows] = record.offset();
            this.timestamps[this.rows] = record.timestamp();
            this.keys.add((byte[]) record.key());
            this.values.add((byte[]) record.value());
            if (this.withHeaders) {
                int count = 0;
                for (Iterator each = record.headers().iterator(); each.hasNext(); count++) {
                    Header header = (Header) each.next();
                    this.headerKeys.add(header.key().getBytes(StandardCharsets.UTF_8));
                    this.headerValues.add(header.value());
                }
                this.headerCounts[this.rows] = count;
            }
            this.rows++;
            this.records++;
            int bytes = this.keys.size + this.values.size + this.headerKeys.size + this.headerValues.size;
            if (this.rows == ROWS || bytes >= BYTES) {
                flush();
            }
        }

        void close() throws IOException {
            try {
                flush();
            } finally {
                this.channel.close();
            }
        }

        private void flush() throws IOException {
            if (this.rows == 0) {
                return;
            }
            long[] sizes = new long[] {
                this.rows, this.headerKeys.count, this.keys.size, this.values.size, this.headerKeys.size,
                this.headerValues.size
            };
            write(sizes, sizes.length);
            write(this.offsets, this.rows);
            write(this.timestamps, this.rows);
            write(this.keys.lengths, this.rows);
            write(this.values.lengths, this.rows);
            write(this.headerCounts, this.rows);
            write(this.headerKeys.lengths, this.headerKeys.count);
            write(this.headerValues.lengths, this.headerKeys.count);
            write(this.keys.bytes, this.keys.size);
            write(this.values.bytes, this.values.size);
            write(this.headerKeys.bytes, this.headerKeys.size);
            write(this.headerValues.bytes, this.headerValues.size);
            this.rows = 0;
            this.keys.clear();
            this.values.clear();
            this.headerKeys.clear();
            this.headerValues.clear();
        }

        private void write(long[] numbers, int count) throws IOException {
            ByteBuffer buffer = ByteBuffer.allocate(8 * count).order(ByteOrder.LITTLE_ENDIAN);
            buffer.asLongBuffer().put(numbers, 0, count);
            write(buffer);
        }

        private void write(int[] numbers, int count) throws IOException {
            ByteBuffer buffer = ByteBuffer.allocate(4 * (count + count % 2)).order(ByteOrder.LITTLE_ENDIAN);
            buffer.asIntBuffer().put(numbers, 0, count);
            write(buffer);
        }

        private void write(byte[] bytes, int count) throws IOException {
            write(ByteBuffer.wrap(bytes, 0, count));
            write(ByteBuffer.allocate((8 - count % 8) % 8));
        }

        private void write(ByteBuffer buffer) throws IOException {
            while (buffer.hasRemaining()) {
                this.channel.write(buffer);
            }
        }
    }

    /** Values one after another, and their lengths: -1 for null. */
    static class Column {
        byte[] bytes = new byte[1 << 16];
        int[] lengths = new int[1 << 10];
        int size = 0;
        int count = 0;

        void add(byte[] value) {
            if (this.count == this.lengths.length) {
                this.lengths = Arrays.copyOf(this.lengths, 2 * this.count);
            }
            if (value == null) {
                this.lengths[this.count++] = -1;
                return;
            }
            if (this.size + value.length > this.bytes.length) {
                this.bytes = Arrays.copyOf(this.bytes, Math.max(2 * this.bytes.length, this.size + value.length));
            }
            System.arraycopy(value, 0, this.bytes, this.size, value.length);
            this.size += value.length;
            this.lengths[this.count++] = value.length;
        }

        void clear() {
            this.size = 0;
            this.count = 0;
        }
    }
}
