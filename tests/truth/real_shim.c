/* Loaded into a file server (LD_PRELOAD): plants a lock per file, or a share of slow operations, below it.

   NASLAB_REAL_LOCK_US: every read and write of data holds its file for so long, whoever does it; the lock is an open
   file description's, so that it also holds between processes. NASLAB_REAL_SLOW_SHARE, NASLAB_REAL_SLOW_US: so many of
   the operations, drawn at random, take so much longer. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static double number(const char *name) {
    const char *text = getenv(name);
    return text ? atof(text) : 0.0;
}

static int guard_of(int fd) {
    struct stat facts;
    char path[256];
    const char *folder = getenv("NASLAB_REAL_LOCKS");
    if (!folder || fstat(fd, &facts) || !S_ISREG(facts.st_mode)) return -1;
    snprintf(path, sizeof path, "%s/%lu", folder, (unsigned long)facts.st_ino);
    return open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
}

static void hold(int fd) {
    double lock_us = number("NASLAB_REAL_LOCK_US"), share = number("NASLAB_REAL_SLOW_SHARE");
    if (lock_us > 0) {
        int guard = guard_of(fd);
        if (guard >= 0) {
            flock(guard, LOCK_EX);
            usleep((useconds_t)lock_us);
            close(guard);
        }
    }
    if (share > 0) {
        static __thread unsigned state = 0;
        struct stat facts;
        if (!state) state = (unsigned)(gettid() * 2654435761u) | 1u;
        if (rand_r(&state) < share * RAND_MAX && !fstat(fd, &facts) && S_ISREG(facts.st_mode) && facts.st_size >= 1 << 20)
            usleep((useconds_t)number("NASLAB_REAL_SLOW_US"));
    }
}

#define PLANT(result, name, parameters, arguments)                      \
    result name parameters {                                            \
        static result(*real) parameters;                                \
        if (!real) real = (result(*) parameters)dlsym(RTLD_NEXT, #name); \
        if (size_is_data) hold(fd);                                     \
        return real arguments;                                          \
    }

#define size_is_data (size >= 4096)
PLANT(ssize_t, pread, (int fd, void *data, size_t size, off_t at), (fd, data, size, at))
PLANT(ssize_t, pread64, (int fd, void *data, size_t size, off64_t at), (fd, data, size, at))
PLANT(ssize_t, pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
PLANT(ssize_t, pwrite64, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at))
#undef size_is_data
#define size_is_data (count > 0 && parts[0].iov_len >= 4096)
PLANT(ssize_t, preadv, (int fd, const struct iovec *parts, int count, off_t at), (fd, parts, count, at))
PLANT(ssize_t, preadv64, (int fd, const struct iovec *parts, int count, off64_t at), (fd, parts, count, at))
PLANT(ssize_t, pwritev, (int fd, const struct iovec *parts, int count, off_t at), (fd, parts, count, at))
PLANT(ssize_t, pwritev64, (int fd, const struct iovec *parts, int count, off64_t at), (fd, parts, count, at))
