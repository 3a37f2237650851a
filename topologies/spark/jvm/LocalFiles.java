package windbolt;

import java.io.IOException;
import java.lang.reflect.Method;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/** Hadoop's local files, with checksums and all, which need no program to set permissions (decision 90). */
public final class LocalFiles extends LocalFileSystem {
    private static final URI HERE = URI.create("file:///");

    private FileSystem before;

    public LocalFiles() {
        super(new Raw());
    }

    /** Be what Hadoop gives out for local files; false where somebody has chosen what that is. */
    public boolean enter(Configuration conf) throws Exception {
        FileSystem found = FileSystem.get(HERE, conf);
        String name = found.getClass().getName();
        boolean usual = name.equals("org.apache.hadoop.fs.LocalFileSystem")
            || name.equals("org.apache.hadoop.hive.ql.io.ProxyLocalFileSystem"); // the same, as Hive's jar brings it
        if (!usual || conf.get("fs.file.impl") != null) {
            return false;
        }
        initialize(HERE, conf);
        before = found;
        give(this, conf);
        return true;
    }

    /** Let Hadoop give out again what it did; who has asked meanwhile keeps these. */
    public void leave(Configuration conf) throws Exception {
        if (before != null) {
            give(before, conf);
        }
    }

    private static void give(FileSystem files, Configuration conf) throws Exception {
        // Hadoop has this for its tests alone. To close the other one would delete what it is to delete when Java ends.
        Method put = FileSystem.class.getDeclaredMethod(
            "addFileSystemForTesting", new Class[] {URI.class, Configuration.class, FileSystem.class});
        put.setAccessible(true);
        put.invoke(null, new Object[] {HERE, conf, files});
    }

    public static final class Raw extends RawLocalFileSystem {
        public void setPermission(Path path, FsPermission permission) throws IOException {
            if (permission.getStickyBit()) {
                super.setPermission(path, permission);
                return;
            }
            String text = permission.getUserAction().SYMBOL
                + permission.getGroupAction().SYMBOL
                + permission.getOtherAction().SYMBOL;
            try {
                Files.setPosixFilePermissions(pathToFile(path).toPath(), PosixFilePermissions.fromString(text));
            } catch (UnsupportedOperationException error) { // no POSIX file system
                super.setPermission(path, permission);
            }
        }
    }
}
