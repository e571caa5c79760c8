/* A disk that refuses one call, once: preloaded into a broker and its children by refusals.py (LD_PRELOAD).
 *
 * Calls on files below REFUSE_UNDER whose names end with REFUSE_SUFFIX are counted by kind, over all processes, in the file REFUSE_COUNTS; the call number
 * REFUSE_AT of the kind REFUSE_KIND fails with the number REFUSE_CODE.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { OPEN, WRITE, SYNC, RENAME, UNLINK, TRUNCATE, KINDS };

static _Atomic long *counts;
static const char *under, *suffix = "";
static int refused_kind = -1, code;
static long refused_at = -1;

__attribute__((constructor)) static void begin(void) {
    const char *file = getenv("REFUSE_COUNTS");
    under = getenv("REFUSE_UNDER");
    if (!file || !under) return;
    int descriptor = open(file, O_RDWR | O_CLOEXEC);
    if (descriptor < 0) return;
    void *shared = mmap(NULL, KINDS * sizeof(long), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    close(descriptor);
    if (getenv("REFUSE_SUFFIX")) suffix = getenv("REFUSE_SUFFIX");
    if (getenv("REFUSE_KIND")) refused_kind = atoi(getenv("REFUSE_KIND"));
    if (getenv("REFUSE_AT")) refused_at = atol(getenv("REFUSE_AT"));
    if (getenv("REFUSE_CODE")) code = atoi(getenv("REFUSE_CODE"));
    if (shared != MAP_FAILED) counts = shared;
}

static int refuses_path(enum kind kind, const char *path) {
    if (!counts || strncmp(path, under, strlen(under)) != 0) return 0;
    size_t length = strlen(path), end = strlen(suffix);
    if (length < end || strcmp(path + length - end, suffix) != 0) return 0;
    if (atomic_fetch_add(&counts[kind], 1) != refused_at || (int)kind != refused_kind) return 0;
    dprintf(2, "refused: call %ld of kind %d on %s\n", refused_at, kind, path);
    errno = code;
    return 1;
}

static int refuses(enum kind kind, int descriptor) {
    char link[32], path[PATH_MAX];
    if (!counts) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return refuses_path(kind, path);
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define OPENS(name)                                                  \
    int name(const char *path, int flags, ...) {                     \
        va_list rest;                                                \
        va_start(rest, flags);                                       \
        mode_t mode = va_arg(rest, mode_t);                          \
        va_end(rest);                                                \
        if (refuses_path(OPEN, path)) return -1;                     \
        return NEXT(name)(path, flags, mode);                        \
    }
OPENS(open)
OPENS(open64)

#define OPENS_AT(name)                                               \
    int name(int folder, const char *path, int flags, ...) {         \
        va_list rest;                                                \
        va_start(rest, flags);                                       \
        mode_t mode = va_arg(rest, mode_t);                          \
        va_end(rest);                                                \
        if (refuses_path(OPEN, path)) return -1;                     \
        return NEXT(name)(folder, path, flags, mode);                \
    }
OPENS_AT(openat)
OPENS_AT(openat64)

ssize_t write(int file, const void *data, size_t size) {
    return refuses(WRITE, file) ? -1 : NEXT(write)(file, data, size);
}
ssize_t pwrite(int file, const void *data, size_t size, off_t position) {
    return refuses(WRITE, file) ? -1 : NEXT(pwrite)(file, data, size, position);
}
ssize_t pwrite64(int file, const void *data, size_t size, off64_t position) {
    return refuses(WRITE, file) ? -1 : NEXT(pwrite64)(file, data, size, position);
}
ssize_t pwritev(int file, const struct iovec *pieces, int count, off_t position) {
    return refuses(WRITE, file) ? -1 : NEXT(pwritev)(file, pieces, count, position);
}
ssize_t pwritev64(int file, const struct iovec *pieces, int count, off64_t position) {
    return refuses(WRITE, file) ? -1 : NEXT(pwritev64)(file, pieces, count, position);
}
int fsync(int file) { return refuses(SYNC, file) ? -1 : NEXT(fsync)(file); }
int fdatasync(int file) { return refuses(SYNC, file) ? -1 : NEXT(fdatasync)(file); }
int ftruncate(int file, off_t size) { return refuses(TRUNCATE, file) ? -1 : NEXT(ftruncate)(file, size); }
int ftruncate64(int file, off64_t size) { return refuses(TRUNCATE, file) ? -1 : NEXT(ftruncate64)(file, size); }
int rename(const char *from, const char *to) { return refuses_path(RENAME, from) ? -1 : NEXT(rename)(from, to); }
int renameat(int a, const char *from, int b, const char *to) {
    return refuses_path(RENAME, from) ? -1 : NEXT(renameat)(a, from, b, to);
}
int unlink(const char *path) { return refuses_path(UNLINK, path) ? -1 : NEXT(unlink)(path); }
int unlinkat(int folder, const char *path, int flags) {
    return refuses_path(UNLINK, path) ? -1 : NEXT(unlinkat)(folder, path, flags);
}
