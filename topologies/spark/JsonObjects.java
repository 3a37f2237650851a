import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.io.NumberInput;

/**
 * Reads the values of Kafka's records, each a flat JSON object, as rows of the declared columns.
 *
 * It is strict: Python would read the same row from whatever it reads (topologies/io/formats/json.py). Everything else
 * is left to Python, which reads it or reports the problem.
 *
 * Most objects consist of ASCII texts without escapes and numbers without exponents. These are read in place, because
 * Jackson takes about as long as Python. Jackson reads the other objects.
 */
static final class JsonObjects {
    /** Deepest nesting of a value that belongs to no column. */
    private static final int DEEPEST = 16;
    /** Doubles hold every whole number up to here. */
    private static final long EXACT = 1L << 53;
    /** Number of digits that always fit into 64 bits. */
    private static final int MOST_DIGITS = 18;
    /** Powers of ten that doubles hold exactly. */
    private static final double[] TENS = {
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18
    };
    private static final long NONE = Long.MIN_VALUE;
    private static final int[] DAYS = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

    private final JsonFactory factory = new JsonFactory();
    private final byte[][] names;
    private final char[] kinds;
    /** The columns of rows; values of other columns are only checked. */
    private final boolean[] wanted;
    private final HashMap places = new HashMap();
    private final UnsafeRowWriter row;
    /** For each column, the number of the last object with its name. */
    private final long[] seen;
    private long number;
    /** Position up to which an object has been read. */
    private int at;

    /** Takes the letter of each column's type and its name, in hexadecimal, and the wanted columns. */
    JsonObjects(String[] columns, int[] chosen) {
        names = new byte[columns.length][];
        kinds = new char[columns.length];
        wanted = new boolean[columns.length];
        seen = new long[columns.length];
        row = new UnsafeRowWriter(columns.length, 256);
        for (int column = 0; column < columns.length; column++) {
            kinds[column] = columns[column].charAt(0);
            byte[] name = new byte[columns[column].length() / 2];
            for (int each = 0; each < name.length; each++) {
                name[each] = (byte) Integer.parseInt(columns[column].substring(1 + 2 * each, 3 + 2 * each), 16);
            }
            names[column] = name;
            places.put(UTF8String.fromBytes(name).toString(), Integer.valueOf(column));
        }
        for (int each = 0; each < chosen.length; each++) {
            wanted[chosen[each]] = true;
        }
    }

    /** Returns the row of an object, valid until the next call; null if Python must read the object. */
    InternalRow row(byte[] value) throws IOException {
        if (value.length < 2 || value[0] != '{') {
            return null;
        }
        begin();
        if (readsPlain(value)) {
            return end();
        }
        if (value[1] == 0 || !UTF8String.fromBytes(value).isValid()) { // after a 0 byte Jackson would assume UTF-16
            return null;
        }
        begin();
        boolean good;
        JsonParser parser = factory.createParser(value, 0, value.length);
        try {
            good = reads(parser);
        } catch (JsonProcessingException error) {
            good = false;
        }
        parser.close();
        return good ? end() : null;
    }

    private void begin() {
        number++;
        row.reset();
        row.zeroOutNullBytes();
    }

    private InternalRow end() {
        for (int column = 0; column < names.length; column++) {
            if (seen[column] != number) {
                row.setNullAt(column);
            }
        }
        return row.getRow();
    }

    // Objects that are read in place. False only means that Jackson has to read the object.

    private boolean readsPlain(byte[] text) {
        int next = 0;
        at = 1;
        do {
            skipBlanks(text);
            int start = at + 1;
            if (!passesText(text)) {
                return false;
            }
            int column = place(text, start, at - 1, next);
            skipBlanks(text);
            if (at == text.length || text[at++] != ':') {
                return false;
            }
            skipBlanks(text);
            if (column >= 0) {
                if (seen[column] == number) {
                    return false;
                }
                seen[column] = number;
                next = column + 1;
            }
            if (at == text.length || !takesPlain(text, column)) {
                return false;
            }
            skipBlanks(text);
            if (at == text.length) {
                return false;
            }
        } while (text[at++] == ',');
        if (text[at - 1] != '}') {
            return false;
        }
        skipBlanks(text);
        return at == text.length;
    }

    private void skipBlanks(byte[] text) {
        while (at < text.length && (text[at] == ' ' || text[at] == '\n' || text[at] == '\r' || text[at] == '\t')) {
            at++;
        }
    }

    /** Skips a text with its quotes; false for escapes, control characters, and characters beyond ASCII. */
    private boolean passesText(byte[] text) {
        if (at == text.length || text[at] != '"') {
            return false;
        }
        int end = at + 1;
        while (end < text.length && text[end] >= ' ' && text[end] != '"' && text[end] != '\\') {
            end++;
        }
        at = end + 1;
        return end < text.length && text[end] == '"';
    }

    /** Returns the column of a name, which is often ``next``; -1 for other names. */
    private int place(byte[] text, int start, int end, int next) {
        for (int tried = 0; tried < names.length; tried++) {
            int column = next + tried < names.length ? next + tried : next + tried - names.length;
            byte[] name = names[column];
            int same = 0;
            if (name.length == end - start) {
                while (same < name.length && name[same] == text[start + same]) {
                    same++;
                }
                if (same == name.length) {
                    return column;
                }
            }
        }
        return -1;
    }

    private boolean takesPlain(byte[] text, int column) {
        char kind = column < 0 ? '-' : kinds[column];
        switch (text[at]) {
            case '"':
                int start = at + 1;
                return passesText(text) && takesText(text, start, at - 1 - start, kind, column);
            case 't':
                return passes(text, "true") && takesBoolean(true, kind, column);
            case 'f':
                return passes(text, "false") && takesBoolean(false, kind, column);
            case 'n':
                if (!passes(text, "null")) {
                    return false;
                }
                if (column >= 0) {
                    row.setNullAt(column);
                }
                return true;
            default:
                return takesPlainNumber(text, kind, column);
        }
    }

    private boolean passes(byte[] text, String word) {
        for (int each = 0; each < word.length(); each++) {
            if (at == text.length || text[at++] != word.charAt(each)) {
                return false;
            }
        }
        return true;
    }

    private boolean takesPlainNumber(byte[] text, char kind, int column) {
        int start = at;
        boolean negative = text[at] == '-';
        if (negative) {
            at++;
        }
        int first = at;
        long digits = passesDigits(text, 0);
        int count = at - first, after = 0;
        if (count == 0 || (count > 1 && text[first] == '0')) {
            return false;
        }
        if (at < text.length && text[at] == '.') {
            at++;
            digits = passesDigits(text, digits);
            after = at - first - count - 1;
            if (after == 0) {
                return false;
            }
        }
        if (count + after > MOST_DIGITS || (at < text.length && (text[at] == 'e' || text[at] == 'E'))) {
            return false;
        }
        if (after == 0) {
            return takesWhole(negative ? -digits : digits, negative && digits == 0, kind, column);
        }
        if (kind != 'D') {
            return kind == '-';
        }
        // A quotient of two exact doubles is rounded once, like the number itself.
        double value = digits <= EXACT
            ? (negative ? -(digits / TENS[after]) : digits / TENS[after])
            : NumberInput.parseDouble(new String(text, 0, start, at - start), true);
        row.write(column, value);
        return true;
    }

    /** Skips digits, and appends them to those before; beyond 64 bits the result has no meaning. */
    private long passesDigits(byte[] text, long before) {
        long digits = before;
        while (at < text.length && text[at] >= '0' && text[at] <= '9') {
            digits = 10 * digits + text[at++] - '0';
        }
        return digits;
    }

    // Objects that Jackson reads. False means that Python has to read the object.

    private boolean reads(JsonParser parser) throws IOException {
        parser.nextToken();
        while (parser.nextToken() == JsonToken.FIELD_NAME) {
            Object found = places.get(parser.currentName());
            JsonToken token = parser.nextToken();
            if (found == null) {
                if (!skips(parser, token)) {
                    return false;
                }
                continue;
            }
            int column = ((Integer) found).intValue();
            if (seen[column] == number) {
                return false;
            }
            seen[column] = number;
            if (token == JsonToken.VALUE_NULL) {
                row.setNullAt(column);
            } else if (!takes(parser, token, kinds[column], column)) {
                return false;
            }
        }
        return parser.currentToken() == JsonToken.END_OBJECT && parser.nextToken() == null;
    }

    /** Skips a value of no column; false if it is deeply nested. */
    private static boolean skips(JsonParser parser, JsonToken token) throws IOException {
        int depth = token.isStructStart() ? 1 : 0;
        while (depth > 0) {
            JsonToken inside = parser.nextToken();
            if (inside.isStructStart()) {
                depth++;
            } else if (inside.isStructEnd()) {
                depth--;
            }
            if (depth > DEEPEST) {
                return false;
            }
        }
        return true;
    }

    private boolean takes(JsonParser parser, JsonToken token, char kind, int column) throws IOException {
        if (token == JsonToken.VALUE_STRING) {
            String text = parser.getText();
            UTF8String given = UTF8String.fromString(text);
            return isPaired(text) && takesText(given.getBytes(), 0, given.numBytes(), kind, column);
        }
        if (token == JsonToken.VALUE_TRUE || token == JsonToken.VALUE_FALSE) {
            return takesBoolean(token == JsonToken.VALUE_TRUE, kind, column);
        }
        if (token == JsonToken.VALUE_NUMBER_INT) {
            long whole = parser.getLongValue();
            return takesWhole(whole, whole == 0 && parser.getTextLength() > 1, kind, column);
        }
        if (token != JsonToken.VALUE_NUMBER_FLOAT || kind != 'D') {
            return false;
        }
        double value = parser.getDoubleValue();
        row.write(column, value);
        return !Double.isInfinite(value);
    }

    /** True if no surrogate is unpaired, since UTF-8 cannot encode one. */
    private static boolean isPaired(String text) {
        for (int each = 0; each < text.length(); each++) {
            if (Character.isHighSurrogate(text.charAt(each))) {
                each++;
                if (each == text.length() || !Character.isLowSurrogate(text.charAt(each))) {
                    return false;
                }
            } else if (Character.isLowSurrogate(text.charAt(each))) {
                return false;
            }
        }
        return true;
    }

    // Values of columns, by kind; '-' is for a value of no column. False if the value does not fit.

    private boolean takesText(byte[] text, int start, int length, char kind, int column) {
        switch (kind) {
            case '-':
                return true;
            case 'T':
                if (wanted[column]) {
                    row.write(column, text, start, length);
                }
                return true;
            case 'M':
                return takesMicros(moment(text, start, length), column);
            case 'A':
                long day = length == 10 ? day(text, start) : NONE;
                row.write(column, (int) day);
                return day != NONE;
            default:
                return false;
        }
    }

    private boolean takesBoolean(boolean value, char kind, int column) {
        if (kind == 'Z') {
            row.write(column, value);
        }
        return kind == 'Z' || kind == '-';
    }

    /**
     * Leaves two cases to Python: the sign of -0, which whole numbers do not have, and numbers that doubles cannot
     * hold.
     */
    private boolean takesWhole(long value, boolean isMinusZero, char kind, int column) {
        switch (kind) {
            case '-':
                return true;
            case 'L':
                row.write(column, value);
                return true;
            case 'I':
                row.write(column, (int) value);
                return value == (int) value;
            case 'S':
                row.write(column, (short) value);
                return value == (short) value;
            case 'B':
                row.write(column, (byte) value);
                return value == (byte) value;
            case 'D':
                row.write(column, (double) value);
                return value >= -EXACT && value <= EXACT && !isMinusZero;
            case 'M':
                long most = FrameSums.AFTER_DAY * FrameSums.MICROS_OF_DAY / 1000;
                return value > -most && value < most && takesMicros(1000 * value, column);
            default:
                return false;
        }
    }

    private boolean takesMicros(long micros, int column) {
        row.write(column, micros);
        return micros >= FrameSums.FIRST_DAY * FrameSums.MICROS_OF_DAY
            && micros < FrameSums.AFTER_DAY * FrameSums.MICROS_OF_DAY;
    }

    /**
     * Returns microseconds since 1970 for a time like 2024-05-01T06:00:00.123456+02:00, with or without fraction and
     * zone.
     */
    private static long moment(byte[] text, int start, int length) {
        int end = start + length;
        long day = length < 19 ? NONE : day(text, start);
        if (day == NONE || (text[start + 10] != 'T' && text[start + 10] != ' ')
            || text[start + 13] != ':' || text[start + 16] != ':') {
            return NONE;
        }
        int hour = two(text, start + 11), minute = two(text, start + 14), second = two(text, start + 17);
        if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59) {
            return NONE;
        }
        long micros = ((hour * 60L + minute) * 60 + second) * 1_000_000;
        int at = start + 19;
        if (at < end && text[at] == '.') {
            at++;
            int first = at;
            for (int unit = 100_000; at < end && unit > 0 && isDigit(text[at]); unit /= 10) {
                micros += (text[at] - '0') * unit;
                at++;
            }
            if (at == first) {
                return NONE;
            }
        }
        if (at < end && (end - at != 1 || text[at] != 'Z')) {
            if (end - at != 6 || (text[at] != '+' && text[at] != '-') || text[at + 3] != ':') {
                return NONE;
            }
            int hours = two(text, at + 1), minutes = two(text, at + 4);
            if (hours < 0 || hours > 14 || minutes < 0 || minutes > 59) {
                return NONE;
            }
            long offset = (hours * 60L + minutes) * 60_000_000;
            micros += text[at] == '+' ? -offset : offset;
        }
        return day * FrameSums.MICROS_OF_DAY + micros;
    }

    /** Returns days since 1970 for a date like 2024-05-01 in the years 1 to 9999. */
    private static long day(byte[] text, int at) {
        int high = two(text, at), low = two(text, at + 2), month = two(text, at + 5), day = two(text, at + 8);
        int year = 100 * high + low;
        if (high < 0 || low < 0 || year < 1 || text[at + 4] != '-' || text[at + 7] != '-'
            || month < 1 || month > 12 || day < 1) {
            return NONE;
        }
        boolean leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        if (day > DAYS[month - 1] && (month != 2 || day != 29 || !leap)) {
            return NONE;
        }
        // A year counted from March ends with its leap day.
        int shifted = month > 2 ? year : year - 1, months = month > 2 ? month - 3 : month + 9;
        long days = 365L * shifted + shifted / 4 - shifted / 100 + shifted / 400 + (153 * months + 2) / 5 + day - 1;
        return days - 719468;
    }

    private static int two(byte[] text, int at) {
        return isDigit(text[at]) && isDigit(text[at + 1]) ? 10 * (text[at] - '0') + text[at + 1] - '0' : -1;
    }

    private static boolean isDigit(byte letter) {
        return letter >= '0' && letter <= '9';
    }
}
