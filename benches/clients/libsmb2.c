/* libsmb2 under the common load. OPTION: dialect (0x0202 ... 0x0311), "sign", "seal". The password comes from the
 * environment (NASLAB_PASSWORD), the user from NASLAB_USER. SERVER is host:port. */
#include "load.h"

#include <smb2/smb2.h>
#include <smb2/libsmb2.h>

static struct smb2_context *smb2;
static struct smb2fh *handle;

static void client_connect(const char *server, const char *share, int options, char **option) {
    const char *user = getenv("NASLAB_USER"), *password = getenv("NASLAB_PASSWORD");
    smb2 = smb2_init_context();
    if (!smb2) fail("smb2_init_context", NULL);
    smb2_set_security_mode(smb2, SMB2_NEGOTIATE_SIGNING_ENABLED);
    for (int i = 0; i < options; i++) {
        if (strcmp(option[i], "sign") == 0) smb2_set_sign(smb2, 1);
        else if (strcmp(option[i], "seal") == 0) smb2_set_seal(smb2, 1);
        else smb2_set_version(smb2, (enum smb2_negotiate_version)strtoul(option[i], NULL, 16));
    }
    if (user) smb2_set_user(smb2, user);
    if (password) smb2_set_password(smb2, password);
    if (smb2_connect_share(smb2, server, share, user) < 0) fail("connect", smb2_get_error(smb2));
}

static void client_open(const char *file, int writing) {
    handle = smb2_open(smb2, file, writing ? O_RDWR | O_CREAT : O_RDONLY);
    if (!handle) fail("open", smb2_get_error(smb2));
}

static uint32_t wanted;

static void on_done(struct smb2_context *context, int status, void *data, void *private) {
    (void)data;
    load_done(private, status, wanted, smb2_get_error(context));
}

static void client_start(struct slot *slot, int writing, uint32_t bytes) {
    wanted = bytes;
    int started = writing ? smb2_pwrite_async(smb2, handle, slot->buffer, bytes, slot->offset, on_done, slot)
                          : smb2_pread_async(smb2, handle, slot->buffer, bytes, slot->offset, on_done, slot);
    if (started < 0) fail("start", smb2_get_error(smb2));
}

static int client_fd(void) { return smb2_get_fd(smb2); }
static int client_events(void) { return smb2_which_events(smb2); }
static int client_service(int revents) { return smb2_service(smb2, revents); }

static int client_metadata(const char *op, const char *path) {
    struct smb2_stat_64 found;
    if (strcmp(op, "create") == 0) {
        struct smb2fh *made = smb2_open(smb2, path, O_RDWR | O_CREAT | O_EXCL);
        return made ? smb2_close(smb2, made) : -1;
    }
    if (strcmp(op, "stat") == 0) return smb2_stat(smb2, path, &found);
    return smb2_unlink(smb2, path);
}

int main(int argc, char **argv) { return load_main(argc, argv); }
