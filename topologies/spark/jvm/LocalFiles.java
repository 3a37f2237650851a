package windbolt;

import java.io.File;
import java.io.IOException;
import java.lang.reflect.Method;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
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
    private boolean replaces = true;

    public LocalFiles() {
        super(new Raw());
    }

    /** Be what Hadoop gives out for local files, unless somebody has chosen what that is. */
    public void enter(Configuration conf) throws Exception {
        FileSystem found = FileSystem.get(HERE, conf);
        String name = found.getClass().getName();
        boolean ofHive = name.equals("org.apache.hadoop.hive.ql.io.ProxyLocalFileSystem"); // where Spark has Hive's jar
        boolean usual = ofHive || name.equals("org.apache.hadoop.fs.LocalFileSystem");
        if (!usual || conf.get("fs.file.impl") != null || conf.getBoolean("fs.file.impl.disable.cache", false)) {
            return;
        }
        Configuration theirs = found.getConf() == null ? conf : found.getConf();
        setConf(theirs);
        initialize(HERE, theirs);
        replaces = !ofHive;
        before = found;
        give(this, conf);
    }

    /** Let Hadoop give out again what it did; who has asked meanwhile keeps these. */
    public void leave(Configuration conf) throws Exception {
        if (before != null && FileSystem.get(HERE, conf) == this) {
            give(before, conf);
        }
    }

    /** Those of Hive replace no file. */
    public boolean rename(Path from, Path to) throws IOException {
        return (replaces || !isFile(to)) && super.rename(from, to);
    }

    /** What is to be deleted when Java ends: only what Hadoop gives out then is asked to. */
    public boolean deleteOnExit(Path path) throws IOException {
        return before == null ? super.deleteOnExit(path) : before.deleteOnExit(path);
    }

    public boolean cancelDeleteOnExit(Path path) {
        return before == null ? super.cancelDeleteOnExit(path) : before.cancelDeleteOnExit(path);
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
            File file = pathToFile(path);
            if (permission.getStickyBit() || file.isDirectory()) { // the program leaves a folder its group for new files
                super.setPermission(path, permission);
                return;
            }
            String text = permission.getUserAction().SYMBOL
                + permission.getGroupAction().SYMBOL
                + permission.getOtherAction().SYMBOL;
            try {
                Files.setPosixFilePermissions(file.toPath(), PosixFilePermissions.fromString(text));
            } catch (UnsupportedOperationException error) { // no POSIX file system
                super.setPermission(path, permission);
            } catch (InvalidPathException error) { // a name that Java cannot encode
                super.setPermission(path, permission);
            }
        }
    }
}
