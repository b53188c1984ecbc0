/* The same load for every client library under comparison: a fixed number of operations at a depth, on one file.
 *
 * A program includes this, gives the six functions below, and calls load_main. Usage:
 *   PROGRAM SERVER SHARE FILE OP BLOCK_BYTES DEPTH COUNT [OPTION...]
 * OP: write, read (sequential), random_read, create, stat, remove (COUNT small files, one at a time).
 * Prints {"ops", "bytes", "seconds", "cpu_s", "p50_us"} on standard output. */
#ifndef LOAD_H
#define LOAD_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

struct slot {
    uint8_t *buffer;
    uint64_t offset;
    double started;
};

/* Given by each client. */
static void client_connect(const char *server, const char *share, int options, char **option);
static void client_open(const char *file, int writing);
static void client_start(struct slot *slot, int writing, uint32_t bytes);
static int client_fd(void);
static int client_events(void);
static int client_service(int revents);
static int client_metadata(const char *op, const char *path);

static int in_flight;
static uint64_t done_ops;
static double *latencies;

static void fail(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why ? why : "failed");
    exit(1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static double cpu(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* Called by the client when the slot's operation ended. */
static void load_done(struct slot *slot, int64_t moved, uint32_t wanted, const char *why) {
    if (moved != (int64_t)wanted) fail("operation", why);
    latencies[done_ops++] = now() - slot->started;
    in_flight--;
    slot->started = 0;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void report(double seconds, double cpu_s, uint64_t bytes) {
    qsort(latencies, done_ops, sizeof *latencies, compare);
    printf("{\"ops\": %llu, \"bytes\": %llu, \"seconds\": %.9f, \"cpu_s\": %.6f, \"p50_us\": %.3f}\n",
           (unsigned long long)done_ops, (unsigned long long)bytes, seconds, cpu_s,
           done_ops ? latencies[done_ops / 2] * 1e6 : 0.0);
}

static void data(const char *op, const char *file, uint32_t block, int depth, uint64_t count) {
    int writing = strcmp(op, "write") == 0, random = strcmp(op, "random_read") == 0;
    struct slot *slots = calloc(depth, sizeof *slots);
    uint64_t next = 0, seed = 0x9E3779B97F4A7C15ull;
    client_open(file, writing);
    for (int i = 0; i < depth; i++) {
        if (posix_memalign((void **)&slots[i].buffer, 4096, block)) fail("memory", NULL);
        for (uint32_t b = 0; b < block; b++) slots[i].buffer[b] = (uint8_t)(b * 31 + i);
    }
    double cpu_before = cpu(), start = now();
    while (done_ops < count) {
        for (int i = 0; i < depth && next < count; i++) {
            if (slots[i].started != 0) continue;
            seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
            slots[i].offset = (random ? seed % count : next) * (uint64_t)block;
            slots[i].started = now();
            next++, in_flight++;
            client_start(&slots[i], writing, block);
        }
        struct pollfd p = {.fd = client_fd(), .events = client_events()};
        if (poll(&p, 1, 10000) <= 0) fail("poll", "no answer for 10 s");
        if (client_service(p.revents) < 0) fail("service", "connection broke");
    }
    report(now() - start, cpu() - cpu_before, done_ops * block);
}

static void metadata(const char *op, const char *file, uint64_t count) {
    char path[512];
    double cpu_before = cpu(), start = now();
    while (done_ops < count) {
        snprintf(path, sizeof path, "%s.%llu", file, (unsigned long long)done_ops);
        double began = now();
        if (client_metadata(op, path) < 0) fail(op, path);
        latencies[done_ops++] = now() - began;
    }
    report(now() - start, cpu() - cpu_before, 0);
}

static int load_main(int argc, char **argv) {
    if (argc < 8) {
        fprintf(stderr, "usage: %s SERVER SHARE FILE OP BLOCK_BYTES DEPTH COUNT [OPTION...]\n", argv[0]);
        return 2;
    }
    uint64_t count = strtoull(argv[7], NULL, 10);
    latencies = calloc(count + 1, sizeof *latencies);
    client_connect(argv[1], argv[2], argc - 8, argv + 8);
    if (strcmp(argv[4], "write") == 0 || strstr(argv[4], "read"))
        data(argv[4], argv[3], strtoul(argv[5], NULL, 10), atoi(argv[6]), count);
    else
        metadata(argv[4], argv[3], count);
    fflush(stdout);
    _Exit(0);
}

#endif
