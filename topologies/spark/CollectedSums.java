package windbolt;

import java.io.FileOutputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.sql.catalyst.InternalRow;

/**
 * Called in the driver: fetches the sums that tasks on other machines have made. Compiled on demand (frame_sums.py).
 */
public class CollectedSums {
    public CollectedSums() {
    }

    /**
     * Writes the sums of all partitions into a file, one after another. Returns the number of sums; negative if the
     * rows are needed. The RDD has a row for each partition, with the bytes that FrameSums.java writes.
     */
    public long write(JavaRDD summed, String path) throws Exception {
        List rows = (List) summed.collectAsync().get();
        byte[][] parts = new byte[rows.size()][];
        long size = 0;
        for (int part = 0; part < parts.length; part++) {
            parts[part] = ((InternalRow) rows.get(part)).getBinary(0);
            long sums = ByteBuffer.wrap(parts[part]).order(ByteOrder.nativeOrder()).getLong(8);
            if (sums < 0) {
                return sums;
            }
            size += sums;
        }
        OutputStream out = new FileOutputStream(path);
        try {
            for (int part = 0; part < parts.length; part++) {
                out.write(parts[part]);
            }
        } finally {
            out.close();
        }
        return size;
    }
}
