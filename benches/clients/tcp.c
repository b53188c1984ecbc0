/* Raw TCP under the common load: what the same bytes cost with no file service in between. The program serves itself
 * over the loopback: a child answers each request of 128 bytes with a block (reads), or takes a request with its block
 * and answers with 128 bytes (writes). SERVER, SHARE and FILE mean nothing here. */
#include "load.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HEAD = 128, MOST_DEPTH = 1024 };

static int line;
static struct slot *waiting[MOST_DEPTH]; /* in the order of their requests */
static unsigned asked, answered;
static uint32_t block, got; /* bytes of an operation; of the answer that is being received */
static int takes; /* the client writes */

static void whole(int socket, uint8_t *buffer, size_t bytes, ssize_t (*move)(int, void *, size_t)) {
    for (size_t done = 0; done < bytes;) {
        ssize_t moved = move(socket, buffer + done, bytes - done);
        if (moved <= 0) _exit(0); /* the other side has ended */
        done += (size_t)moved;
    }
}

static ssize_t put(int socket, void *buffer, size_t bytes) { return send(socket, buffer, bytes, MSG_NOSIGNAL); }
static ssize_t take(int socket, void *buffer, size_t bytes) { return recv(socket, buffer, bytes, 0); }

static void serve(int socket) {
    uint8_t head[HEAD], *data = NULL;
    uint32_t room = 0;
    for (;;) {
        whole(socket, head, HEAD, take);
        uint32_t in, out;
        memcpy(&in, head, 4), memcpy(&out, head + 4, 4);
        if (in + out > room) {
            data = realloc(data, room = in + out);
            if (!data) _exit(1);
            memset(data, 0x5a, room); /* pages of its own, as a server's have */
        }
        if (in) whole(socket, data, in, take);
        whole(socket, head, HEAD, put);
        if (out) whole(socket, data, out, put);
    }
}

static void client_connect(const char *server, const char *share, int options, char **option) {
    (void)server, (void)share, (void)options, (void)option;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int listening = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    if (bind(listening, (struct sockaddr *)&at, size) || listen(listening, 1)) fail("listen", strerror(errno));
    if (getsockname(listening, (struct sockaddr *)&at, &size)) fail("getsockname", strerror(errno));
    pid_t parent = getpid(), child = fork();
    if (child < 0) fail("fork", strerror(errno));
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(0);
        int accepted = accept(listening, NULL, NULL);
        setsockopt(accepted, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        serve(accepted);
    }
    line = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(line, (struct sockaddr *)&at, size)) fail("connect", strerror(errno));
    setsockopt(line, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    close(listening);
}

static void client_open(const char *file, int writing) { (void)file, takes = writing; }

static void client_start(struct slot *slot, int writing, uint32_t bytes) {
    uint8_t head[HEAD] = {0};
    uint32_t in = writing ? bytes : 0, out = writing ? 0 : bytes;
    memcpy(head, &in, 4), memcpy(head + 4, &out, 4);
    block = bytes;
    waiting[asked++ % MOST_DEPTH] = slot;
    whole(line, head, HEAD, put);
    if (writing) whole(line, slot->buffer, bytes, put);
}

static int client_fd(void) { return line; }
static int client_events(void) { return POLLIN; }

/* Receives what is there: the head of an answer apart, its data where they belong. */
static int client_service(int revents) {
    (void)revents;
    uint8_t head[HEAD];
    uint32_t answer = HEAD + (takes ? 0 : block);
    while (answered != asked) {
        struct slot *slot = waiting[answered % MOST_DEPTH];
        uint8_t *to = got < HEAD ? head : slot->buffer + (got - HEAD);
        ssize_t moved = recv(line, to, got < HEAD ? HEAD - got : answer - got, MSG_DONTWAIT);
        if (moved < 0 && errno == EAGAIN) return 0;
        if (moved <= 0) return -1;
        got += (uint32_t)moved;
        if (got < answer) continue;
        got = 0, answered++;
        load_done(slot, block, block, NULL);
    }
    return 0;
}

static int client_metadata(const char *op, const char *path) {
    (void)path;
    fail(op, "raw TCP knows no files");
    return -1;
}

int main(int argc, char **argv) { return load_main(argc, argv); }
