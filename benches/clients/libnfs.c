/* libnfs (6 or newer: older ones cannot be told the server's ports) under the common load. SERVER is a host;
 * OPTION: version (3 or 4), nfs port, mount port. */
#include "load.h"

#include <nfsc/libnfs.h>

static struct nfs_context *nfs;
static struct nfsfh *handle;

static void client_connect(const char *server, const char *share, int options, char **option) {
    nfs = nfs_init_context();
    if (!nfs) fail("nfs_init_context", NULL);
    if (options > 0 && nfs_set_version(nfs, atoi(option[0])) < 0) fail("version", nfs_get_error(nfs));
    if (options > 1) nfs_set_nfsport(nfs, atoi(option[1]));
    if (options > 2) nfs_set_mountport(nfs, atoi(option[2]));
    if (nfs_mount(nfs, server, share) < 0) fail("mount", nfs_get_error(nfs));
}

static void client_open(const char *file, int writing) {
    int flags = writing ? O_RDWR | O_CREAT : O_RDONLY;
    int opened = nfs_open2(nfs, file, flags, 0644, &handle);
    if (opened < 0) fail("open", nfs_get_error(nfs));
}

static uint32_t wanted;

static void on_done(int status, struct nfs_context *context, void *data, void *private) {
    (void)data;
    load_done(private, status, wanted, nfs_get_error(context));
}

static void client_start(struct slot *slot, int writing, uint32_t bytes) {
    wanted = bytes;
    int started = writing ? nfs_pwrite_async(nfs, handle, slot->buffer, bytes, slot->offset, on_done, slot)
                          : nfs_pread_async(nfs, handle, slot->buffer, bytes, slot->offset, on_done, slot);
    if (started < 0) fail("start", nfs_get_error(nfs));
}

static int client_fd(void) { return nfs_get_fd(nfs); }
static int client_events(void) { return nfs_which_events(nfs); }
static int client_service(int revents) { return nfs_service(nfs, revents); }

static int client_metadata(const char *op, const char *path) {
    struct nfs_stat_64 found;
    if (strcmp(op, "create") == 0) {
        struct nfsfh *made;
        int opened = nfs_open2(nfs, path, O_RDWR | O_CREAT | O_EXCL, 0644, &made);
        return opened < 0 ? -1 : nfs_close(nfs, made);
    }
    if (strcmp(op, "stat") == 0) return nfs_stat64(nfs, path, &found);
    return nfs_unlink(nfs, path);
}

int main(int argc, char **argv) { return load_main(argc, argv); }
