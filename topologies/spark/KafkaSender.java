package windbolt;

import java.io.FileInputStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.IntVector;
import org.apache.arrow.vector.VarBinaryVector;
import org.apache.arrow.vector.VarCharVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.complex.ListVector;
import org.apache.arrow.vector.complex.StructVector;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Sends the records of a file, an Arrow stream, with one producer, which stays connected. */
public class KafkaSender {
    final KafkaProducer producer;

    public KafkaSender(Properties settings) {
        this.producer = new KafkaProducer(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    /** Returns once all records are written; throws the first failure. */
    public void send(String path) throws Exception {
        final Exception[] failure = new Exception[1];
        Callback noting = new Callback() {
            public void onCompletion(RecordMetadata metadata, Exception exception) {
                if (exception != null && failure[0] == null) {
                    failure[0] = exception;
                }
            }
        };
        RootAllocator memory = new RootAllocator(Long.MAX_VALUE);
        ArrowStreamReader reader = new ArrowStreamReader(new FileInputStream(path), memory);
        try {
            VectorSchemaRoot records = reader.getVectorSchemaRoot();
            while (reader.loadNextBatch()) {
                send(records, noting, failure);
            }
        } finally {
            reader.close();
            memory.close();
        }
        this.producer.flush();
        if (failure[0] != null) {
            throw failure[0];
        }
    }

    void send(VectorSchemaRoot records, Callback noting, Exception[] failure) {
        VarCharVector topics = (VarCharVector) records.getVector("topic");
        IntVector partitions = (IntVector) records.getVector("partition");
        VarBinaryVector keys = (VarBinaryVector) records.getVector("key");
        VarBinaryVector values = (VarBinaryVector) records.getVector("value");
        ListVector headers = (ListVector) records.getVector("headers");
        StructVector pairs = (StructVector) headers.getDataVector();
        VarCharVector names = (VarCharVector) pairs.getChild("key");
        VarBinaryVector texts = (VarBinaryVector) pairs.getChild("value");
        for (int row = 0; row < records.getRowCount() && failure[0] == null; row++) {
            List given = new ArrayList();
            for (int at = headers.getElementStartIndex(row); at < headers.getElementEndIndex(row); at++) {
                given.add(new RecordHeader(new String(names.get(at), StandardCharsets.UTF_8), texts.get(at)));
            }
            String topic = new String(topics.get(row), StandardCharsets.UTF_8);
            Integer partition = partitions.isNull(row) ? null : Integer.valueOf(partitions.get(row));
            this.producer.send(
                new ProducerRecord(topic, partition, (Object) keys.get(row), (Object) values.get(row), (Iterable) given),
                noting);
        }
    }

    public void close() {
        this.producer.close(Duration.ofSeconds(0));
    }
}
