package windbolt;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Sends the records of a file (kafka_client.py has the layout) with one producer, which stays connected. */
public class KafkaSender {
    final KafkaProducer producer;

    public KafkaSender(Properties settings) {
        this.producer = new KafkaProducer(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    /** Returns once all of them are written; throws the first failure. */
    public void send(String path) throws Exception {
        ByteBuffer file = ByteBuffer.wrap(Files.readAllBytes(Paths.get(path, new String[0])));
        file.order(ByteOrder.LITTLE_ENDIAN);
        int[] sizes = ints(file, 3);
        byte[][] topics = values(file, ints(file, sizes[1]));
        int[] topicOf = ints(file, sizes[0]);
        int[] partitionOf = ints(file, sizes[0]);
        int[] headerCounts = ints(file, sizes[0]);
        byte[][] keys = values(file, ints(file, sizes[0]));
        byte[][] values = values(file, ints(file, sizes[0]));
        byte[][] headerKeys = values(file, ints(file, sizes[2]));
        byte[][] headerValues = values(file, ints(file, sizes[2]));
        String[] names = new String[topics.length];
        for (int at = 0; at < names.length; at++) {
            names[at] = new String(topics[at], StandardCharsets.UTF_8);
        }
        final Exception[] failure = new Exception[1];
        Callback noting = new Callback() {
            public void onCompletion(RecordMetadata metadata, Exception exception) {
                if (exception != null && failure[0] == null) {
                    failure[0] = exception;
                }
            }
        };
        int header = 0;
        for (int at = 0; at < sizes[0] && failure[0] == null; at++) {
            List headers = new ArrayList();
            for (int left = headerCounts[at]; left > 0; left--, header++) {
                String name = new String(headerKeys[header], StandardCharsets.UTF_8);
                headers.add(new RecordHeader(name, headerValues[header]));
            }
            Integer partition = partitionOf[at] < 0 ? null : Integer.valueOf(partitionOf[at]);
            ProducerRecord record = new ProducerRecord(
                names[topicOf[at]], partition, (Object) keys[at], (Object) values[at], (Iterable) headers);
            this.producer.send(record, noting);
        }
        this.producer.flush();
        if (failure[0] != null) {
            throw failure[0];
        }
    }

    public void close() {
        this.producer.close(Duration.ofSeconds(0));
    }

    static int[] ints(ByteBuffer file, int count) {
        int[] found = new int[count];
        file.asIntBuffer().get(found);
        file.position(file.position() + 4 * count);
        return found;
    }

    /** Values one after another, of these lengths: -1 for null. */
    static byte[][] values(ByteBuffer file, int[] lengths) {
        byte[][] found = new byte[lengths.length][];
        for (int at = 0; at < found.length; at++) {
            if (lengths[at] >= 0) {
                found[at] = new byte[lengths[at]];
                file.get(found[at]);
            }
        }
        return found;
    }
}
