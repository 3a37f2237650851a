import java.io.BufferedOutputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import org.apache.spark.memory.MemoryConsumer;
import org.apache.spark.memory.MemoryMode;
import org.apache.spark.memory.TaskMemoryManager;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;
import org.apache.spark.sql.execution.BufferedRowIterator;

/** Called by Spark, which compiles this text as it does its own generated code; frame_sums.py says what it is given. */
public Object generate(Object[] references) {
    return new FrameSums((String) references[0]);
}

/** The share of a task in the memory that Spark divides among its tasks: arrays beyond it could end Java. */
static final class Memory extends MemoryConsumer {
    Memory(TaskMemoryManager manager) {
        super(manager, manager.pageSizeBytes(), MemoryMode.ON_HEAP);
    }

    /** Returns false where there are not so many bytes left. */
    boolean takes(long bytes) {
        long granted = acquireMemory(bytes);
        if (granted < bytes) {
            freeMemory(granted);
        }
        return granted == bytes;
    }

    public long spill(long size, MemoryConsumer other) {
        return 0;
    }
}

/**
 * Adds up the rows of one partition by slice of time and key, and writes the sums into a file.
 *
 * Sums are numbered as they turn up. A hash table with open addressing finds the number by the key, and all that is
 * known of them are arrays. A key is a row of numbers: the last microsecond of the slice; bits, of which the first says
 * that the events are behind the watermark, and the others which columns are null; and a number for each column.
 */
static final class FrameSums extends BufferedRowIterator {
    /** In place of the number of sums: the rows are needed, since one has no valid time, or sums are too many or large. */
    private static final long NO_TIME = -1, TOO_MANY = -2;
    private static final int MOST = 1 << 20, ENOUGH_TO_TELL = 1 << 16;
    /** Bytes: of all texts, of which Arrow takes 2 GiB; taken at once for texts; and of Java's objects for each. */
    private static final long MOST_TEXT = 1L << 30, STEP = 1L << 20, OF_TEXT = 128;

    private final String files;
    private final long firstInTime, origin, slide, cut, scale, firstValid, lastValid;
    private final int struct, fields;
    private final int[] columns;
    private final char[] kinds, actions;
    private final long[] starts;
    private final int keys, width;
    private final HashMap[] texts;
    private final ArrayList[] listed;

    private scala.collection.Iterator input;
    private int size, room = 1 << 12;
    private int[] places = new int[2 * room];
    private long[] known, wanted;
    private long[] counts = new long[room], latest = new long[room];
    private long[][] terms;
    private Memory memory;
    private long textBytes, textRoom;
    /** True once there is no room for another sum or text: nothing of what is added up then is written. */
    private boolean full;

    FrameSums(String plan) {
        String[] lines = plan.split("\n");
        files = lines[0];
        String[] numbers = lines[1].split(" ");
        firstInTime = Long.parseLong(numbers[0]);
        origin = Long.parseLong(numbers[1]);
        slide = Long.parseLong(numbers[2]);
        cut = Long.parseLong(numbers[3]);
        scale = Long.parseLong(numbers[4]);
        firstValid = Long.parseLong(numbers[5]);
        lastValid = Long.parseLong(numbers[6]);
        struct = Integer.parseInt(numbers[7]);
        fields = Integer.parseInt(numbers[8]);
        keys = Integer.parseInt(numbers[9]);
        width = 2 + keys;
        int count = lines.length - 2; // the column of times, those of the key, and one for each term
        columns = new int[count];
        kinds = new char[count];
        actions = new char[count];
        starts = new long[count];
        for (int at = 0; at < count; at++) {
            String[] parts = lines[at + 2].split(" ");
            columns[at] = Integer.parseInt(parts[0]);
            kinds[at] = parts[1].charAt(0);
            actions[at] = parts[2].charAt(0);
            starts[at] = Long.parseLong(parts[3]);
        }
        texts = new HashMap[keys];
        listed = new ArrayList[keys];
        for (int key = 0; key < keys; key++) {
            texts[key] = new HashMap();
            listed[key] = new ArrayList();
        }
        known = new long[room * width];
        wanted = new long[width];
        terms = new long[count - 1 - keys][room];
    }

    public void init(int index, scala.collection.Iterator[] inputs) {
        partitionIndex = index;
        input = inputs[0];
    }

    protected void processNext() throws IOException {
        if (input == null) {
            return;
        }
        long rows = 0, sums = 0;
        memory = new Memory(TaskContext.get().taskMemoryManager());
        full = !memory.takes(bytes(room));
        while (sums == 0 && input.hasNext()) {
            InternalRow row = (InternalRow) input.next();
            if (struct >= 0) {
                if (row.isNullAt(struct)) {
                    continue;
                }
                row = row.getStruct(struct, fields);
            }
            rows++;
            if (!take(row)) {
                sums = NO_TIME;
            } else if (full || size == MOST || (rows == ENOUGH_TO_TELL && 2 * size > rows)) {
                sums = TOO_MANY;
            }
        }
        input = null;
        if (sums == 0) {
            sums = size;
            write();
        }
        memory.freeMemory(memory.getUsed());
        UnsafeRowWriter writer = new UnsafeRowWriter(3);
        writer.reset();
        writer.zeroOutNullBytes();
        writer.write(0, (long) partitionIndex);
        writer.write(1, rows);
        writer.write(2, sums);
        append(writer.getRow());
    }

    /** Add a row; false if it has no valid time. */
    private boolean take(InternalRow row) {
        int column = columns[0];
        if (row.isNullAt(column)) {
            return false;
        }
        long time = whole(row, column, kinds[0]);
        if (time < firstValid || time > lastValid) {
            return false;
        }
        time *= scale;
        long since = Math.floorMod(time - origin, slide);
        wanted[0] = time - since + (since < cut ? cut : slide) - 1;
        wanted[1] = time < firstInTime ? 1 : 0;
        for (int key = 0; key < keys; key++) {
            column = columns[1 + key];
            if (row.isNullAt(column)) {
                wanted[1] |= 2L << key;
                wanted[2 + key] = 0;
            } else {
                wanted[2 + key] = code(row, column, key);
            }
        }
        int at = place();
        counts[at]++;
        if (time > latest[at]) {
            latest[at] = time;
        }
        for (int term = 0; term < terms.length; term++) {
            column = columns[1 + keys + term];
            if (!row.isNullAt(column)) {
                add(row, column, kinds[1 + keys + term], actions[1 + keys + term], terms[term], at);
            }
        }
        return true;
    }

    private static void add(InternalRow row, int column, char kind, char action, long[] term, int at) {
        switch (action) {
            case 'n':
                term[at]++;
                break;
            case 's':
                term[at] += whole(row, column, kind);
                break;
            case 'h':
                term[at] += whole(row, column, kind) >> 32;
                break;
            case 'l':
                term[at] += whole(row, column, kind) & 0xFFFFFFFFL;
                break;
            case '<':
                term[at] = Math.min(term[at], whole(row, column, kind));
                break;
            case '>':
                term[at] = Math.max(term[at], whole(row, column, kind));
                break;
            default:
                double before = Double.longBitsToDouble(term[at]), value = real(row, column, kind);
                double after = action == 'd' ? before + value
                    : action == 'm' ? Math.min(before, value) : Math.max(before, value);
                term[at] = Double.doubleToRawLongBits(after);
        }
    }

    private static long whole(InternalRow row, int column, char kind) {
        switch (kind) {
            case 'L':
                return row.getLong(column);
            case 'I':
                return row.getInt(column);
            case 'S':
                return row.getShort(column);
            case 'B':
                return row.getByte(column);
            default:
                return row.getBoolean(column) ? 1 : 0;
        }
    }

    private static double real(InternalRow row, int column, char kind) {
        return kind == 'F' ? row.getFloat(column) : row.getDouble(column);
    }

    /** A number for the value of a column of the key: 0.0 and -0.0 are one, and so is NaN, whatever its bits are. */
    private long code(InternalRow row, int column, int key) {
        char kind = kinds[1 + key];
        switch (kind) {
            case 'T':
                return numbered(row.getUTF8String(column), key);
            case 'X':
                return numbered(UTF8String.fromBytes(row.getBinary(column)), key);
            case 'F':
            case 'D':
                return Double.doubleToLongBits(real(row, column, kind) + 0.0);
            default:
                return whole(row, column, kind);
        }
    }

    private long numbered(UTF8String text, int key) {
        Object found = texts[key].get(text);
        if (found == null) {
            textBytes += text.numBytes() + OF_TEXT;
            if (textBytes > textRoom) {
                long more = Math.max(STEP, textBytes - textRoom);
                full = full || textBytes > MOST_TEXT || !memory.takes(more);
                textRoom += more;
            }
            if (full) {
                return 0;
            }
            UTF8String kept = text.copy(); // the row lends its bytes until the next one is read
            found = Long.valueOf(listed[key].size());
            texts[key].put(kept, found);
            listed[key].add(kept);
        }
        return ((Long) found).longValue();
    }

    /** The number of the sum of the wanted key. */
    private int place() {
        int mask = places.length - 1;
        int at = hash(wanted, 0) & mask;
        for (; places[at] != 0; at = (at + 1) & mask) {
            int start = (places[at] - 1) * width, same = 0;
            while (same < width && known[start + same] == wanted[same]) {
                same++;
            }
            if (same == width) {
                return places[at] - 1;
            }
        }
        if (size == room) {
            full = full || !memory.takes(bytes(4 * room));
            if (full) {
                return 0;
            }
            grow();
            return place();
        }
        System.arraycopy(wanted, 0, known, size * width, width);
        latest[size] = Long.MIN_VALUE;
        for (int term = 0; term < terms.length; term++) {
            terms[term][size] = starts[1 + keys + term];
        }
        places[at] = size + 1;
        return size++;
    }

    private int hash(long[] numbers, int start) {
        long hash = 0;
        for (int at = start; at < start + width; at++) {
            hash = (hash ^ numbers[at]) * 0x9E3779B97F4A7C15L;
            hash ^= hash >>> 32;
        }
        return (int) hash;
    }

    /** The bytes of the arrays for so many sums. */
    private long bytes(int sums) {
        return 8L * sums * (width + 3 + terms.length);
    }

    private void grow() {
        long before = bytes(room);
        room *= 4;
        known = Arrays.copyOf(known, room * width);
        counts = Arrays.copyOf(counts, room);
        latest = Arrays.copyOf(latest, room);
        for (int term = 0; term < terms.length; term++) {
            terms[term] = Arrays.copyOf(terms[term], room);
        }
        places = new int[2 * room];
        int mask = places.length - 1;
        for (int sum = 0; sum < size; sum++) {
            int at = hash(known, sum * width) & mask;
            while (places[at] != 0) {
                at = (at + 1) & mask;
            }
            places[at] = sum + 1;
        }
        memory.freeMemory(before);
    }

    /**
     * Write numbers of 64 bits: how many sums there are, how many texts each column of the key has, the columns of the
     * key of all sums, their counts, their latest times, their terms, and the lengths of the texts; then these.
     */
    private void write() throws IOException {
        OutputStream out = new BufferedOutputStream(new FileOutputStream(files + partitionIndex), 1 << 16);
        try {
            long[] sizes = new long[1 + keys];
            sizes[0] = size;
            for (int key = 0; key < keys; key++) {
                sizes[1 + key] = listed[key].size();
            }
            put(out, sizes, sizes.length);
            long[] column = new long[size];
            for (int part = 0; part < width; part++) {
                for (int sum = 0; sum < size; sum++) {
                    column[sum] = known[sum * width + part];
                }
                put(out, column, size);
            }
            put(out, counts, size);
            put(out, latest, size);
            for (int term = 0; term < terms.length; term++) {
                put(out, terms[term], size);
            }
            for (int key = 0; key < keys; key++) {
                long[] lengths = new long[listed[key].size()];
                for (int text = 0; text < lengths.length; text++) {
                    lengths[text] = ((UTF8String) listed[key].get(text)).numBytes();
                }
                put(out, lengths, lengths.length);
            }
            for (int key = 0; key < keys; key++) {
                for (int text = 0; text < listed[key].size(); text++) {
                    out.write(((UTF8String) listed[key].get(text)).getBytes());
                }
            }
        } finally {
            out.close();
        }
    }

    private static void put(OutputStream out, long[] numbers, int count) throws IOException {
        byte[] bytes = new byte[8 * count];
        Platform.copyMemory(numbers, Platform.LONG_ARRAY_OFFSET, bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length);
        out.write(bytes);
    }
}
