import java.io.BufferedOutputStream;
import java.io.ByteArrayOutputStream;
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
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Called by Spark, which compiles this text like its own generated code; frame_sums.py writes its input. */
public Object generate(Object[] references) {
    return new FrameSums((String) references[0], references.length > 1 ? ((Long) references[1]).longValue() : 0);
}

/** A task's share of the memory that Spark divides among its tasks. */
static final class TaskMemory extends MemoryConsumer {
    TaskMemory(TaskMemoryManager manager) {
        super(manager, manager.pageSizeBytes(), MemoryMode.ON_HEAP);
    }

    public long spill(long size, MemoryConsumer other) {
        return 0;
    }
}

/** The memory that sums may use, since arrays beyond it could end Java. */
static final class Memory {
    /** Bytes that a task requests at once. */
    private static final long STEP = 1L << 20;

    private final TaskMemory taskMemory;
    private long used, room;

    /** ``room``: the bytes for a thread of the driver, whose memory Spark does not divide. */
    Memory(TaskContext task, long room) {
        TaskMemoryManager manager = task == null ? null : task.taskMemoryManager();
        taskMemory = manager == null ? null : new TaskMemory(manager);
        this.room = manager == null ? room : 0;
    }

    /** Returns false if that many bytes are not left. */
    boolean acquire(long bytes) {
        used += bytes;
        if (used <= room) {
            return true;
        }
        if (taskMemory == null) {
            return false;
        }
        long more = Math.max(STEP, used - room);
        long granted = taskMemory.acquireMemory(more);
        room += granted;
        return granted == more;
    }

    void release(long bytes) {
        used -= bytes;
    }

    void close() {
        if (taskMemory != null) {
            taskMemory.freeMemory(room);
        }
    }
}

/** The sums of a slice of time; events behind the watermark have sums of their own. */
static final class Slice {
    final long last, late;
    int size;
    /** For each place of the table, the number of its sum plus 1; 0 for an empty place. */
    int[] places = new int[1 << 4];
    /** By how much a hash is shifted to be a place, since its higher bits depend on the whole key. */
    int shift = Long.SIZE - 4;

    Slice(long last, long late) {
        this.last = last;
        this.late = late;
    }

    /** The bytes of its table, and roughly of its Java objects. */
    long bytes() {
        return 128 + 4L * places.length;
    }
}

/** The non-null values of a column in a batch. */
static final class ColumnValues {
    private int[] allRows = new int[0], someRows;
    /** The number of values, the row of each, and each value in one of these arrays. */
    int count;
    int[] rows;
    long[] numbers;
    double[] reals;

    /** Called before the columns of a batch with this many rows are read. */
    void reserve(int size) {
        if (allRows.length < size) {
            allRows = new int[size];
            someRows = new int[size];
            numbers = new long[size];
            reals = new double[size];
            for (int row = 0; row < size; row++) {
                allRows[row] = row;
            }
        }
    }

    /** Finds the rows with a value among this many rows. */
    void find(ColumnVector column, int size) {
        rows = allRows;
        count = size;
        if (column.hasNull()) {
            int found = 0;
            for (int row = 0; row < size; row++) {
                if (!column.isNullAt(row)) {
                    someRows[found++] = row;
                }
            }
            rows = someRows;
            count = found;
        }
    }

    /** Reads the values, after their rows were found. */
    void read(ColumnVector column, char kind) {
        int[] rows = this.rows;
        long[] numbers = this.numbers;
        double[] reals = this.reals;
        switch (kind) {
            case 'L':
            case 'M':
                for (int at = 0; at < count; at++) {
                    numbers[at] = column.getLong(rows[at]);
                }
                break;
            case 'I':
            case 'A':
                for (int at = 0; at < count; at++) {
                    numbers[at] = column.getInt(rows[at]);
                }
                break;
            case 'S':
                for (int at = 0; at < count; at++) {
                    numbers[at] = column.getShort(rows[at]);
                }
                break;
            case 'B':
                for (int at = 0; at < count; at++) {
                    numbers[at] = column.getByte(rows[at]);
                }
                break;
            case 'Z':
                for (int at = 0; at < count; at++) {
                    numbers[at] = column.getBoolean(rows[at]) ? 1 : 0;
                }
                break;
            case 'F':
                for (int at = 0; at < count; at++) {
                    reals[at] = column.getFloat(rows[at]);
                }
                break;
            case 'D':
                for (int at = 0; at < count; at++) {
                    reals[at] = column.getDouble(rows[at]);
                }
                break;
            default: // only the number of values is needed
        }
    }

    /** False for a date or time that Python cannot represent. */
    boolean inCalendar(char kind) {
        if (kind != 'M' && kind != 'A') {
            return true;
        }
        long unit = kind == 'A' ? 1 : FrameSums.MICROS_OF_DAY;
        long first = FrameSums.FIRST_DAY * unit, after = FrameSums.AFTER_DAY * unit;
        for (int at = 0; at < count; at++) {
            if (numbers[at] < first || numbers[at] >= after) {
                return false;
            }
        }
        return true;
    }
}

/**
 * Adds up the rows of one partition by slice of time and key, and writes the sums into a file, or as bytes into a row.
 *
 * Sums are numbered in order of appearance. The numbers about a sum are stored together, as the processor fetches them:
 * the last microsecond of the slice; bits, the first of which marks events behind the watermark, and the others the key
 * columns that are null; a number for each key column; the count of events, and their latest time; and the terms. Each
 * slice has a hash table with open addressing, which finds a sum's number by its key. Most events belong to the few
 * open slices, whose tables are small.
 *
 * Sums are stored in blocks, so that growing copies none of them, and Java's collector has no large arrays to handle.
 */
static final class FrameSums extends BufferedRowIterator {
    /** In place of the number of sums: the rows are needed, because one is bad, or sums are too many or too large. */
    private static final long BAD_ROW = -1, TOO_MANY = -2;
    private static final int MOST = 1 << 20, ENOUGH_TO_TELL = 1 << 16;
    /** Number of successive slices that are found at once, and as many for events behind the watermark. */
    private static final int RECENT = 1 << 6;
    /** Most 64-bit numbers in a block. */
    private static final int BLOCK = 1 << 14;
    /** Days since 1970: the first of year 1, and the one after the last of year 9999. */
    static final long FIRST_DAY = -719162, AFTER_DAY = 2932897, MICROS_OF_DAY = 86_400_000_000L;
    /** Bytes: limit for all texts, of which Arrow takes 2 GiB; and Java's objects for each text. */
    private static final long MOST_TEXT = 1L << 30, OF_TEXT = 128;
    /** How often the bytes exist until the row has them. */
    private static final int COPIES = 3;

    private final String files;
    private final long firstInTime, origin, slide, cut, scale, firstValid, lastValid;
    private final double perSlide;
    /** Most bytes that may be written, and the most sums that fit into them. */
    private final long most, mostSums;
    private final long room;
    private final int struct, fields, value;
    /** Reads the rows from a struct column of the given rows; null if these are the rows. */
    private final JsonObjects objects;
    private final int[] columns;
    private final char[] kinds, actions;
    private final long[] initialTerms;
    private final int keys, width, terms, numbersPerSum;
    /** How many bits of a sum's number give its place in its block, and a mask of these bits. */
    private final int bits, placeMask;
    private final HashMap[] texts;
    private final ArrayList[] textsByNumber;

    private scala.collection.Iterator input;
    private int size;
    private long[][] blocks = new long[16][];
    private final HashMap slices = new HashMap();
    /** Recently used slices; neighbours in time have different places. */
    private final Slice[] recent = new Slice[2 * RECENT];
    private long[] wantedKey;
    private Memory memory;
    private long textBytes, textOfSums;
    /** Upper bound on the bytes written so far. */
    private long written;
    /** True once there is no room for another sum or text; then nothing that is added up is written. */
    private boolean full;

    /** Number of rows that were read last: one, or those of a batch of columns. */
    private int rowsRead;
    /** For each row of a batch: its time; the key columns that are null; its sum; the numbers of other key columns. */
    private long[] times = new long[0], marks;
    private int[] sumOfRow;
    private long[][] codes;
    private final ColumnValues values = new ColumnValues();
    /** For each place of a dictionary, the number of its text plus 1; 0 if it has none yet. */
    private final int[] known = new int[1 << 14];

    FrameSums(String plan, long room) {
        this.room = room;
        String[] lines = plan.split("\n");
        files = lines[0];
        String[] numbers = lines[1].split(" ");
        firstInTime = Long.parseLong(numbers[0]);
        origin = Long.parseLong(numbers[1]);
        slide = Long.parseLong(numbers[2]);
        perSlide = 1.0 / slide;
        cut = Long.parseLong(numbers[3]);
        scale = Long.parseLong(numbers[4]);
        firstValid = Long.parseLong(numbers[5]);
        lastValid = Long.parseLong(numbers[6]);
        struct = Integer.parseInt(numbers[7]);
        fields = Integer.parseInt(numbers[8]);
        keys = Integer.parseInt(numbers[9]);
        most = Long.parseLong(numbers[10]);
        value = Integer.parseInt(numbers[11]);
        width = 2 + keys;
        int count = lines.length - 3; // the time column, the key columns, and one column for each term
        columns = new int[count];
        kinds = new char[count];
        actions = new char[count];
        initialTerms = new long[count];
        for (int at = 0; at < count; at++) {
            String[] parts = lines[at + 3].split(" ");
            columns[at] = Integer.parseInt(parts[0]);
            kinds[at] = parts[1].charAt(0);
            actions[at] = parts[2].charAt(0);
            initialTerms[at] = Long.parseLong(parts[3]);
        }
        objects = value < 0 ? null : new JsonObjects(lines[2].split(" "), columns);
        texts = new HashMap[keys];
        textsByNumber = new ArrayList[keys];
        for (int key = 0; key < keys; key++) {
            texts[key] = new HashMap();
            textsByNumber[key] = new ArrayList();
        }
        wantedKey = new long[width];
        terms = count - 1 - keys;
        numbersPerSum = width + 2 + terms;
        mostSums = Math.min(MOST, most / (8L * numbersPerSum));
        bits = Math.max(0, 31 - Integer.numberOfLeadingZeros(BLOCK / numbersPerSum));
        placeMask = (1 << bits) - 1;
        written = 8L * (3 + keys);
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
        memory = new Memory(TaskContext.get(), room);
        while (sums == 0 && input.hasNext()) {
            Object next = input.next();
            boolean isValid;
            rowsRead = 1;
            if (next instanceof ColumnarBatch) {
                isValid = addBatch((ColumnarBatch) next);
            } else {
                InternalRow row = (InternalRow) next;
                if (struct >= 0) {
                    if (row.isNullAt(struct)) {
                        continue;
                    }
                    row = row.getStruct(struct, fields);
                }
                if (objects != null) {
                    row = row.isNullAt(value) ? null : objects.row(row.getBinary(value));
                }
                isValid = row != null && addRow(row);
            }
            rows += rowsRead;
            boolean canTell = rows >= ENOUGH_TO_TELL && rows - rowsRead < ENOUGH_TO_TELL;
            if (!isValid) {
                sums = BAD_ROW;
            } else if (full || size > mostSums || (canTell && 2 * size > rows)) {
                sums = TOO_MANY;
            }
        }
        input = null;
        if (sums == 0 && (written + textOfSums > most || (files.isEmpty() && !memory.acquire(COPIES * written)))) {
            sums = TOO_MANY;
        }
        writeResult(rows, sums);
        memory.close();
    }

    /** Adds a row. Returns false without a valid time, or for a value outside the years 1 to 9999 in a time column. */
    private boolean addRow(InternalRow row) {
        int column = columns[0];
        if (row.isNullAt(column)) {
            return false;
        }
        long time = whole(row, column, kinds[0]);
        if (time < firstValid || time > lastValid) {
            return false;
        }
        time *= scale;
        Slice slice = slice(time);
        wantedKey[1] = slice.late;
        for (int key = 0; key < keys; key++) {
            column = columns[1 + key];
            if (row.isNullAt(column)) {
                wantedKey[1] |= 2L << key;
                wantedKey[2 + key] = 0;
            } else if (!inCalendar(row, column, kinds[1 + key])) {
                return false;
            } else {
                wantedKey[2 + key] = code(row, column, key);
            }
        }
        int number = place(slice);
        if (full) {
            return true;
        }
        long[] block = blocks[number >> bits];
        int at = (number & placeMask) * numbersPerSum + width;
        block[at]++;
        block[at + 1] = Math.max(block[at + 1], time);
        for (int term = 0; term < terms; term++) {
            column = columns[1 + keys + term];
            if (!row.isNullAt(column)) {
                if (!inCalendar(row, column, kinds[1 + keys + term])) {
                    return false;
                }
                add(row, column, kinds[1 + keys + term], actions[1 + keys + term], block, at + 2 + term);
            }
        }
        return true;
    }

    /**
     * Adds the first rows of a batch of columns for which there is room. Returns false if one is bad. Works column by
     * column where possible, because Java compiles short loops to fast code.
     */
    private boolean addBatch(ColumnarBatch batch) {
        rowsRead = batch.numRows();
        if (rowsRead == 0) {
            return true;
        }
        values.reserve(rowsRead);
        if (times.length < rowsRead) {
            times = new long[rowsRead];
            marks = new long[rowsRead];
            codes = new long[keys][rowsRead];
            sumOfRow = new int[rowsRead];
        }
        if (!readTimes(batch.column(columns[0]))) {
            return false;
        }
        Arrays.fill(marks, 0, rowsRead, 0L);
        for (int key = 0; key < keys; key++) {
            if (!readKey(batch.column(columns[1 + key]), key)) {
                return false;
            }
        }
        placeRows();
        for (int term = 0; term < terms && !full; term++) {
            int at = 1 + keys + term;
            if (term == 0 || columns[at] != columns[at - 1]) {
                values.find(batch.column(columns[at]), rowsRead);
                values.read(batch.column(columns[at]), kinds[at]);
                if (!values.inCalendar(kinds[at])) {
                    return false;
                }
            }
            add(actions[at], width + 2 + term);
        }
        return true;
    }

    /** Reads the times of a batch, in microseconds. Returns false if one is invalid. */
    private boolean readTimes(ColumnVector column) {
        values.find(column, rowsRead);
        if (values.count < rowsRead) {
            return false;
        }
        values.read(column, kinds[0]);
        long[] numbers = values.numbers;
        for (int row = 0; row < rowsRead; row++) {
            if (numbers[row] < firstValid || numbers[row] > lastValid) {
                return false;
            }
            times[row] = numbers[row] * scale;
        }
        return true;
    }

    /** Reads a key column, each value as its number. Returns false for a date or time that Python cannot represent. */
    private boolean readKey(ColumnVector column, int key) {
        char kind = kinds[1 + key];
        long[] codes = this.codes[key], numbers = values.numbers;
        values.find(column, rowsRead);
        if (kind == 'T' || kind == 'X') {
            numberTexts(column, kind, key);
        } else {
            values.read(column, kind);
        }
        if (kind == 'F' || kind == 'D') {
            for (int at = 0; at < values.count; at++) {
                numbers[at] = bitsOf(values.reals[at]);
            }
        } else if (!values.inCalendar(kind)) {
            return false;
        }
        if (values.count < rowsRead) {
            Arrays.fill(codes, 0, rowsRead, 0L);
            for (int row = 0; row < rowsRead; row++) {
                marks[row] |= 2L << key;
            }
            for (int at = 0; at < values.count; at++) {
                marks[values.rows[at]] ^= 2L << key;
            }
        }
        for (int at = 0; at < values.count; at++) {
            codes[values.rows[at]] = numbers[at];
        }
        return true;
    }

    /** Numbers the texts of a column; those of a dictionary once each. */
    private void numberTexts(ColumnVector column, char kind, int key) {
        WritableColumnVector places = null;
        if (column instanceof WritableColumnVector && ((WritableColumnVector) column).hasDictionary()) {
            places = ((WritableColumnVector) column).getDictionaryIds();
            Arrays.fill(known, 0);
        }
        UTF8String last = null;
        long number = 0;
        for (int at = 0; at < values.count && !full; at++) {
            int row = values.rows[at], place = places == null ? known.length : places.getDictId(row);
            if (place < known.length && known[place] > 0) {
                values.numbers[at] = known[place] - 1;
                continue;
            }
            UTF8String text = kind == 'T' ? column.getUTF8String(row) : UTF8String.fromBytes(column.getBinary(row));
            if (text != last) { // a column from folder names has one text for all rows
                number = numberOf(text, key);
                last = text;
            }
            values.numbers[at] = number;
            if (place < known.length) {
                known[place] = (int) number + 1;
            }
        }
    }

    /** Finds and counts the sums of the first rows of a batch for which there is room. */
    private void placeRows() {
        long[] first = keys == 1 ? codes[0] : null;
        for (int row = 0; row < rowsRead; row++) {
            long time = times[row];
            Slice slice = slice(time);
            long mark = slice.late | marks[row];
            int number = first == null ? -1 : findInHomePlace(slice, mark, first[row]);
            if (number < 0) {
                wantedKey[1] = mark;
                for (int key = 0; key < keys; key++) {
                    wantedKey[2 + key] = codes[key][row];
                }
                number = place(slice);
                if (full) {
                    rowsRead = row + 1;
                    return;
                }
            }
            long[] block = blocks[number >> bits];
            int at = (number & placeMask) * numbersPerSum + width;
            block[at]++;
            block[at + 1] = Math.max(block[at + 1], time);
            sumOfRow[row] = number;
        }
    }

    /** Adds the values of a column to the term with this place in their sums. */
    private void add(char action, int term) {
        int[] rows = values.rows;
        long[] numbers = values.numbers;
        for (int at = 0; at < values.count; at++) {
            int number = sumOfRow[rows[at]], place = (number & placeMask) * numbersPerSum + term;
            long[] block = blocks[number >> bits];
            switch (action) {
                case 'n':
                    block[place]++;
                    break;
                case 's':
                    block[place] += numbers[at];
                    break;
                case 'h':
                    block[place] += numbers[at] >> 32;
                    break;
                case 'l':
                    block[place] += numbers[at] & 0xFFFFFFFFL;
                    break;
                case '<':
                    block[place] = Math.min(block[place], numbers[at]);
                    break;
                case '>':
                    block[place] = Math.max(block[place], numbers[at]);
                    break;
                default:
                    block[place] = combined(block[place], values.reals[at], action);
            }
        }
    }

    /** False for a date or time that Python cannot represent, which makes its row bad. */
    private static boolean inCalendar(InternalRow row, int column, char kind) {
        switch (kind) {
            case 'M':
                long micros = row.getLong(column);
                return micros >= FIRST_DAY * MICROS_OF_DAY && micros < AFTER_DAY * MICROS_OF_DAY;
            case 'A':
                int days = row.getInt(column);
                return days >= FIRST_DAY && days < AFTER_DAY;
            default:
                return true;
        }
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
                term[at] = combined(term[at], real(row, column, kind), action);
        }
    }

    private static long whole(InternalRow row, int column, char kind) {
        switch (kind) {
            case 'L':
            case 'M':
                return row.getLong(column);
            case 'I':
            case 'A':
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

    /** Returns a number for the value of a key column. */
    private long code(InternalRow row, int column, int key) {
        char kind = kinds[1 + key];
        switch (kind) {
            case 'T':
                return numberOf(row.getUTF8String(column), key);
            case 'X':
                return numberOf(UTF8String.fromBytes(row.getBinary(column)), key);
            case 'F':
            case 'D':
                return bitsOf(real(row, column, kind));
            default:
                return whole(row, column, kind);
        }
    }

    /** Returns the bits of a double after adding a value, or the bits of the lesser or greater of the two. */
    private static long combined(long term, double value, char action) {
        double before = Double.longBitsToDouble(term);
        return Double.doubleToRawLongBits(action == 'd' ? before + value
            : action == 'm' ? Math.min(before, value) : Math.max(before, value));
    }

    /** Returns a number for a double: 0.0 and -0.0 share one, and so do all NaN. */
    private static long bitsOf(double value) {
        return Double.doubleToLongBits(value + 0.0);
    }

    private long numberOf(UTF8String text, int key) {
        Object found = texts[key].get(text);
        if (found == null) {
            textBytes += text.numBytes() + OF_TEXT;
            full = full || textBytes > MOST_TEXT || !memory.acquire(text.numBytes() + OF_TEXT);
            if (full) {
                return 0;
            }
            UTF8String kept = text.copy(); // the row reuses its bytes for the next row
            found = Long.valueOf(textsByNumber[key].size());
            texts[key].put(kept, found);
            textsByNumber[key].add(kept);
            written += 8 + text.numBytes();
        }
        return ((Long) found).longValue();
    }

    /** Returns the slice of an event with this time. */
    private Slice slice(long time) {
        // Division is slow; a product is off by one slice at most, or is not used.
        long since = time - origin, number = (long) (since * perSlide), offset = since - number * slide;
        if (offset < 0) {
            offset += slide;
            number--;
        } else if (offset >= slide) {
            offset -= slide;
            number++;
        }
        if (offset < 0 || offset >= slide) {
            offset = Math.floorMod(since, slide);
            number = Math.floorDiv(since, slide);
        }
        int half = offset < cut ? 0 : 1;
        long last = time - offset + (half == 0 ? cut : slide) - 1;
        int late = time < firstInTime ? 1 : 0, at = (int) (2 * number + half) & RECENT - 1 | late * RECENT;
        Slice slice = recent[at];
        if (slice == null || slice.last != last || slice.late != late) {
            slice = slice(last, late);
            recent[at] = slice;
        }
        return slice;
    }

    private Slice slice(long last, long late) {
        Long name = Long.valueOf(mixed(2 * last + late)); // Java's own hashes of round numbers are similar
        Slice slice = (Slice) slices.get(name);
        if (slice == null) {
            slice = new Slice(last, late);
            slices.put(name, slice);
            full = full || !memory.acquire(slice.bytes());
        }
        return slice;
    }

    /**
     * Returns the number of a sum by a key of one column if the sum is in its home place of the table, as most are;
     * else -1.
     */
    private int findInHomePlace(Slice slice, long mark, long code) {
        int number = slice.places[(int) (mixed(mixed(mark) ^ code) >>> slice.shift)] - 1;
        if (number >= 0) {
            long[] block = blocks[number >> bits];
            int start = (number & placeMask) * numbersPerSum;
            if (block[start + 1] != mark || block[start + 2] != code) {
                return -1;
            }
        }
        return number;
    }

    /** Returns the number of the sum of the wanted key; meaningless if there is no room for it. */
    private int place(Slice slice) {
        int[] places = slice.places;
        int mask = places.length - 1;
        int at = (int) (hash(wantedKey, 0) >>> slice.shift);
        for (; places[at] != 0; at = (at + 1) & mask) {
            int number = places[at] - 1;
            long[] block = blocks[number >> bits];
            int start = (number & placeMask) * numbersPerSum, same = 1;
            while (same < width && block[start + same] == wantedKey[same]) {
                same++;
            }
            if (same == width) {
                return number;
            }
        }
        if (2 * slice.size == places.length) {
            grow(slice);
            return full ? 0 : place(slice);
        }
        if ((size & placeMask) == 0) {
            full = full || !memory.acquire(8L * numbersPerSum << bits);
            if (full) {
                return 0;
            }
            if (size >> bits == blocks.length) {
                blocks = (long[][]) Arrays.copyOf(blocks, 2 * blocks.length);
            }
            blocks[size >> bits] = new long[numbersPerSum << bits];
        }
        long[] block = blocks[size >> bits];
        int start = (size & placeMask) * numbersPerSum;
        block[start] = slice.last;
        System.arraycopy(wantedKey, 1, block, start + 1, width - 1);
        block[start + width + 1] = Long.MIN_VALUE;
        System.arraycopy(initialTerms, 1 + keys, block, start + width + 2, terms);
        places[at] = size + 1;
        slice.size++;
        if (files.isEmpty()) {
            countTexts();
        }
        written += 8L * numbersPerSum;
        full = full || written + textOfSums > most; // the remaining rows need not be read
        return size++;
    }

    /** Counts the texts of the wanted key again, because the driver keeps those of each sum. */
    private void countTexts() {
        for (int key = 0; key < keys; key++) {
            char kind = kinds[1 + key];
            if ((kind == 'T' || kind == 'X') && (wantedKey[1] & 2L << key) == 0) {
                textOfSums += ((UTF8String) textsByNumber[key].get((int) wantedKey[2 + key])).numBytes();
            }
        }
    }

    private long hash(long[] numbers, int start) {
        long hash = mixed(numbers[start + 1]);
        for (int at = start + 2; at < start + width; at++) {
            hash = mixed(hash ^ numbers[at]);
        }
        return hash;
    }

    /** Fibonacci hashing: spreads numbers at regular distances evenly. */
    private static long mixed(long number) {
        return number * 0x9E3779B97F4A7C15L;
    }

    /** Doubles the table of a slice, if there is room. */
    private void grow(Slice slice) {
        long before = slice.bytes();
        full = full || !memory.acquire(2 * before);
        if (full) {
            return;
        }
        int[] old = slice.places, places = new int[2 * old.length];
        int mask = places.length - 1, shift = slice.shift - 1;
        for (int each = 0; each < old.length; each++) {
            int number = old[each] - 1;
            if (number >= 0) {
                int at = (int) (hash(blocks[number >> bits], (number & placeMask) * numbersPerSum) >>> shift);
                while (places[at] != 0) {
                    at = (at + 1) & mask;
                }
                places[at] = number + 1;
            }
        }
        slice.places = places;
        slice.shift = shift;
        memory.release(before);
    }

    /** Writes the file of this partition, or the only row if there are no files. */
    private void writeResult(long rows, long reason) throws IOException {
        if (files.isEmpty()) {
            ByteArrayOutputStream sums = new ByteArrayOutputStream(reason < 0 ? 1 << 8 : (int) written);
            write(sums, rows, reason);
            UnsafeRowWriter row = new UnsafeRowWriter(1, sums.size() + 8);
            row.reset();
            row.zeroOutNullBytes();
            row.write(0, sums.toByteArray());
            append(row.getRow());
            return;
        }
        OutputStream out = new BufferedOutputStream(new FileOutputStream(files + partitionIndex), 1 << 16);
        try {
            write(out, rows, reason);
        } finally {
            out.close();
        }
    }

    /**
     * Writes 64-bit numbers: the count of rows; the count of sums, or the reason for none; the count of texts in each
     * key column; the sums; and the lengths of the texts. The texts follow, padded to a multiple of 64 bits.
     */
    private void write(OutputStream out, long rows, long reason) throws IOException {
        long[] sizes = new long[2 + keys];
        sizes[0] = rows;
        sizes[1] = reason < 0 ? reason : size;
        for (int key = 0; key < keys; key++) {
            sizes[2 + key] = textsByNumber[key].size();
        }
        put(out, sizes, sizes.length);
        if (reason < 0) {
            return;
        }
        for (int sum = 0; sum < size; sum += 1 << bits) {
            put(out, blocks[sum >> bits], Math.min(size - sum, 1 << bits) * numbersPerSum);
        }
        long written = 0;
        for (int key = 0; key < keys; key++) {
            long[] lengths = new long[textsByNumber[key].size()];
            for (int text = 0; text < lengths.length; text++) {
                lengths[text] = ((UTF8String) textsByNumber[key].get(text)).numBytes();
                written += lengths[text];
            }
            put(out, lengths, lengths.length);
        }
        for (int key = 0; key < keys; key++) {
            for (int text = 0; text < textsByNumber[key].size(); text++) {
                out.write(((UTF8String) textsByNumber[key].get(text)).getBytes());
            }
        }
        out.write(new byte[(int) (-written & 7)]);
    }

    private static void put(OutputStream out, long[] numbers, int count) throws IOException {
        byte[] bytes = new byte[8 * count];
        Platform.copyMemory(numbers, Platform.LONG_ARRAY_OFFSET, bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length);
        out.write(bytes);
    }
}
