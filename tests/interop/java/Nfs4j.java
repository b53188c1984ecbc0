import java.io.IOException;
import java.io.StringReader;
import java.nio.file.Path;

import org.dcache.nfs.ExportFile;
import org.dcache.nfs.v3.MountServer;
import org.dcache.nfs.v3.NfsServerV3;
import org.dcache.nfs.v3.xdr.mount_prot;
import org.dcache.nfs.v3.xdr.nfs3_prot;
import org.dcache.nfs.v4.MDSOperationExecutor;
import org.dcache.nfs.v4.NFSServerV41;
import org.dcache.nfs.v4.xdr.nfs4_prot;
import org.dcache.oncrpc4j.rpc.OncRpcProgram;
import org.dcache.oncrpc4j.rpc.OncRpcSvc;
import org.dcache.oncrpc4j.rpc.OncRpcSvcBuilder;

/** {@code Nfs4j FOLDER PORT}: a folder over NFS 3 and 4, at 127.0.0.1, until it is killed. */
public final class Nfs4j {
    private Nfs4j() {
    }

    public static void main(String[] given) throws IOException, InterruptedException {
        Folder folder = new Folder(Path.of(given[0]).toRealPath());
        ExportFile exports = new ExportFile(new StringReader("/ 127.0.0.1(rw,no_root_squash)\n"));
        OncRpcSvc server = new OncRpcSvcBuilder()
                .withBindAddress("127.0.0.1")
                .withPort(Integer.parseInt(given[1]))
                .withTCP()
                .withoutAutoPublish()
                .withWorkerThreadIoStrategy()
                .build();
        server.register(new OncRpcProgram(mount_prot.MOUNT_PROGRAM, mount_prot.MOUNT_V3),
                new MountServer(exports, folder));
        server.register(new OncRpcProgram(nfs3_prot.NFS_PROGRAM, nfs3_prot.NFS_V3), new NfsServerV3(exports, folder));
        server.register(new OncRpcProgram(nfs4_prot.NFS4_PROGRAM, nfs4_prot.NFS_V4), new NFSServerV41.Builder()
                .withVfs(folder)
                .withOperationExecutor(new MDSOperationExecutor())
                .withExportTable(exports)
                .build());
        server.start();
        Thread.currentThread().join();
    }
}
