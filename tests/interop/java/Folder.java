import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.DirectoryNotEmptyException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileStore;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotDirectoryException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileTime;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

import javax.security.auth.Subject;

import org.dcache.nfs.status.ExistException;
import org.dcache.nfs.status.NoEntException;
import org.dcache.nfs.status.NotDirException;
import org.dcache.nfs.status.NotEmptyException;
import org.dcache.nfs.status.NotSuppException;
import org.dcache.nfs.status.StaleException;
import org.dcache.nfs.v4.NfsIdMapping;
import org.dcache.nfs.v4.SimpleIdMap;
import org.dcache.nfs.v4.xdr.nfsace4;
import org.dcache.nfs.vfs.AclCheckable;
import org.dcache.nfs.vfs.DirectoryEntry;
import org.dcache.nfs.vfs.DirectoryStream;
import org.dcache.nfs.vfs.FsStat;
import org.dcache.nfs.vfs.Inode;
import org.dcache.nfs.vfs.Stat;
import org.dcache.nfs.vfs.VirtualFileSystem;

/** A folder of this machine as nfs4j's file system. A file handle is the inode's number; links are left out. */
final class Folder implements VirtualFileSystem {
    private final Path root;
    private final Map<Long, Path> paths = new ConcurrentHashMap<>();
    private final NfsIdMapping owners = new SimpleIdMap();

    Folder(Path root) {
        this.root = root;
    }

    /** Something that may fail as Java says, with nfs4j's word for it. */
    private interface Work<T> {
        T done() throws IOException;
    }

    private static <T> T told(Work<T> work) throws IOException {
        try {
            return work.done();
        } catch (FileAlreadyExistsException e) {
            throw new ExistException(e.getMessage());
        } catch (DirectoryNotEmptyException e) {
            throw new NotEmptyException(e.getMessage());
        } catch (NotDirectoryException e) {
            throw new NotDirException(e.getMessage());
        } catch (NoSuchFileException e) {
            throw new NoEntException(e.getMessage());
        }
    }

    private static long number(Path path) throws IOException {
        return ((Number) Files.getAttribute(path, "unix:ino", LinkOption.NOFOLLOW_LINKS)).longValue();
    }

    private Inode inode(Path path) throws IOException {
        long number = number(path);
        paths.put(number, path);
        return Inode.forFile(ByteBuffer.allocate(Long.BYTES).putLong(number).array());
    }

    private Path path(Inode inode) throws IOException {
        Path path = paths.get(ByteBuffer.wrap(inode.getFileId()).getLong());
        if (path == null || !Files.exists(path, LinkOption.NOFOLLOW_LINKS)) {
            throw new StaleException("no such file now");
        }
        return path;
    }

    @Override
    public int access(Subject subject, Inode inode, int mode) {
        return mode;
    }

    @Override
    public Inode create(Inode parent, Stat.Type type, String name, Subject subject, int mode) throws IOException {
        if (type != Stat.Type.REGULAR) {
            throw new NotSuppException("only files");
        }
        return told(() -> inode(withMode(Files.createFile(path(parent).resolve(name)), mode)));
    }

    @Override
    public Inode mkdir(Inode parent, String name, Subject subject, int mode) throws IOException {
        return told(() -> inode(withMode(Files.createDirectory(path(parent).resolve(name)), mode)));
    }

    private static Path withMode(Path path, int mode) throws IOException {
        Files.setAttribute(path, "unix:mode", mode & 07777);
        return path;
    }

    @Override
    public FsStat getFsStat() throws IOException {
        FileStore store = Files.getFileStore(root);
        return new FsStat(store.getTotalSpace(), 1 << 20, store.getTotalSpace() - store.getUsableSpace(), 0);
    }

    @Override
    public Inode getRootInode() throws IOException {
        return inode(root);
    }

    @Override
    public Inode lookup(Inode parent, String name) throws IOException {
        return told(() -> inode(path(parent).resolve(name).normalize()));
    }

    @Override
    public Inode parentOf(Inode inode) throws IOException {
        Path path = path(inode);
        if (path.equals(root)) {
            throw new NoEntException("above the root");
        }
        return inode(path.getParent());
    }

    /** In the order of the inodes' numbers, which are the cookies: what is removed meanwhile moves no other entry. */
    @Override
    public DirectoryStream list(Inode inode, byte[] verifier, long cookie) throws IOException {
        TreeSet<DirectoryEntry> entries = new TreeSet<>();
        try (Stream<Path> names = told(() -> Files.list(path(inode)))) {
            for (Path path : (Iterable<Path>) names::iterator) {
                try {
                    Stat stat = stat(path);
                    if (stat.getIno() > cookie) {
                        String name = path.getFileName().toString();
                        entries.add(new DirectoryEntry(name, inode(path), stat, stat.getIno()));
                    }
                } catch (NoSuchFileException e) {
                    continue; // removed since
                }
            }
        }
        return new DirectoryStream(DirectoryStream.ZERO_VERIFIER, entries);
    }

    @Override
    public byte[] directoryVerifier(Inode inode) {
        return DirectoryStream.ZERO_VERIFIER;
    }

    @Override
    public boolean move(Inode from, String name, Inode to, String newName) throws IOException {
        Path old = path(from).resolve(name);
        Path moved = path(to).resolve(newName);
        told(() -> Files.move(old, moved, StandardCopyOption.ATOMIC_MOVE));
        paths.replaceAll((number, path) -> path.startsWith(old) ? moved.resolve(old.relativize(path)) : path);
        paths.put(number(moved), moved);
        return true;
    }

    @Override
    public void remove(Inode parent, String name) throws IOException {
        told(() -> {
            Path path = path(parent).resolve(name);
            long number = number(path);
            Files.delete(path);
            paths.remove(number, path);
            return null;
        });
    }

    @Override
    public int read(Inode inode, ByteBuffer data, long offset) throws IOException {
        try (FileChannel file = FileChannel.open(path(inode), StandardOpenOption.READ)) {
            return Math.max(0, file.read(data, offset)); // less is an error of NFS 3
        }
    }

    @Override
    public WriteResult write(Inode inode, ByteBuffer data, long offset, StabilityLevel level) throws IOException {
        try (FileChannel file = FileChannel.open(path(inode), StandardOpenOption.WRITE)) {
            int count = data.remaining();
            for (long at = offset; data.hasRemaining();) {
                at += file.write(data, at);
            }
            if (level != StabilityLevel.UNSTABLE) {
                file.force(level == StabilityLevel.FILE_SYNC);
            }
            return new WriteResult(level, count);
        }
    }

    @Override
    @Deprecated
    public int read(Inode inode, byte[] data, long offset, int count) throws IOException {
        return read(inode, ByteBuffer.wrap(data, 0, count), offset);
    }

    @Override
    @Deprecated
    public WriteResult write(Inode inode, byte[] data, long offset, int count, StabilityLevel level)
            throws IOException {
        return write(inode, ByteBuffer.wrap(data, 0, count), offset, level);
    }

    @Override
    public void commit(Inode inode, long offset, int count) throws IOException {
        try (FileChannel file = FileChannel.open(path(inode), StandardOpenOption.WRITE)) {
            file.force(true);
        }
    }

    @Override
    public Stat getattr(Inode inode) throws IOException {
        return told(() -> stat(path(inode)));
    }

    private static Stat stat(Path path) throws IOException {
        Map<String, Object> facts = Files.readAttributes(path, "unix:*", LinkOption.NOFOLLOW_LINKS);
        Stat stat = new Stat();
        stat.setDev(17);
        stat.setIno(((Number) facts.get("ino")).longValue());
        stat.setMode(((Number) facts.get("mode")).intValue());
        stat.setNlink(((Number) facts.get("nlink")).intValue());
        stat.setUid(((Number) facts.get("uid")).intValue());
        stat.setGid(((Number) facts.get("gid")).intValue());
        stat.setRdev(17);
        stat.setSize(((Number) facts.get("size")).longValue());
        stat.setATime(((FileTime) facts.get("lastAccessTime")).toMillis());
        stat.setMTime(((FileTime) facts.get("lastModifiedTime")).toMillis());
        stat.setCTime(((FileTime) facts.get("ctime")).toMillis());
        stat.setGeneration(((FileTime) facts.get("ctime")).to(TimeUnit.MICROSECONDS));
        return stat;
    }

    @Override
    public void setattr(Inode inode, Stat stat) throws IOException {
        Path path = path(inode);
        if (stat.isDefined(Stat.StatAttribute.SIZE)) {
            resize(path, stat.getSize());
        }
        if (stat.isDefined(Stat.StatAttribute.MODE)) {
            withMode(path, stat.getMode());
        }
        if (stat.isDefined(Stat.StatAttribute.MTIME)) {
            Files.setLastModifiedTime(path, FileTime.fromMillis(stat.getMTime()));
        }
    }

    private static void resize(Path path, long size) throws IOException {
        try (FileChannel file = FileChannel.open(path, StandardOpenOption.WRITE)) {
            if (size <= file.size()) {
                file.truncate(size);
            } else {
                file.write(ByteBuffer.allocate(1), size - 1);
            }
        }
    }

    @Override
    public Inode link(Inode parent, Inode link, String name, Subject subject) throws IOException {
        throw new NotSuppException("no links");
    }

    @Override
    public Inode symlink(Inode parent, String name, String link, Subject subject, int mode) throws IOException {
        throw new NotSuppException("no links");
    }

    @Override
    public String readlink(Inode inode) throws IOException {
        throw new NotSuppException("no links");
    }

    @Override
    public nfsace4[] getAcl(Inode inode) {
        return new nfsace4[0];
    }

    @Override
    public void setAcl(Inode inode, nfsace4[] acl) throws IOException {
        throw new NotSuppException("no ACLs");
    }

    @Override
    public boolean hasIOLayout(Inode inode) {
        return false;
    }

    @Override
    public AclCheckable getAclCheckable() {
        return AclCheckable.UNDEFINED_ALL;
    }

    @Override
    public NfsIdMapping getIdMapper() {
        return owners;
    }

    @Override
    public boolean getCaseInsensitive() {
        return false;
    }

    @Override
    public boolean getCasePreserving() {
        return true;
    }
}
