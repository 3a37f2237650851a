package windbolt;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ChecksumFileSystem;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/**
 * Writes the logs of a query as Spark's own class does, through Hadoop's FileSystem. Without Hadoop's native library,
 * as in PySpark, that class starts a program to set the permissions of each local file; here Java sets them.
 *
 * Compiled on demand, in the package of Spark's class (classic_session.py).
 */
public class CheckpointFiles extends FileSystemBasedCheckpointFileManager {
    private static final Class[] CREATE = {
        Path.class, FsPermission.class, boolean.class, int.class, short.class, long.class, Progressable.class
    };
    private final FileSystem drafts;

    public CheckpointFiles(Path path, Configuration settings) throws IOException {
        super(path, settings);
        this.drafts = isPlain(fs()) ? withoutPrograms(fs()) : fs();
    }

    public FSDataOutputStream createTempFile(Path path) throws IOException {
        return this.drafts.create(path, true);
    }

    /** True for local files as Hadoop makes them; a file that a user has put in their place is left alone. */
    private static boolean isPlain(FileSystem files) {
        try {
            return files instanceof LocalFileSystem
                && ((LocalFileSystem) files).getRaw().getClass() == RawLocalFileSystem.class
                && files.getClass().getMethod("create", CREATE).getDeclaringClass() == ChecksumFileSystem.class;
        } catch (NoSuchMethodException another) {
            return false;
        }
    }

    private static FileSystem withoutPrograms(FileSystem files) throws IOException {
        LocalFileSystem found = new LocalFileSystem(new LocalFiles());
        found.initialize(files.getUri(), files.getConf());
        found.setConf(files.getConf());
        return found;
    }

    static final class LocalFiles extends RawLocalFileSystem {
        public void setPermission(Path path, FsPermission permission) throws IOException {
            String rights = permission.getUserAction().SYMBOL + permission.getGroupAction().SYMBOL
                + permission.getOtherAction().SYMBOL;
            Files.setPosixFilePermissions(pathToFile(path).toPath(), PosixFilePermissions.fromString(rights));
        }
    }
}
