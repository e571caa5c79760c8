/* A disk that refuses one call, once: preloaded into a process and its children by refusing.py (LD_PRELOAD).
 *
 * Calls on files below REFUSE_UNDER whose names end with REFUSE_SUFFIX are counted by kind, over all processes, in
 * the file REFUSE_TABLE. It says too which one fails: the call number `at` of the kind `kind`, with `code`.
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
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { OPEN, WRITE, SYNC, RENAME, UNLINK, TRUNCATE, READ, MAP, LOOK, FOLDER, KINDS };

struct table {
    _Atomic long counts[KINDS];
    long kind, at, code;
};

static struct table *table;
static const char *under, *suffix = "";

__attribute__((constructor)) static void begin(void) {
    const char *file = getenv("REFUSE_TABLE");
    under = getenv("REFUSE_UNDER");
    if (!file || !under) return;
    int descriptor = open(file, O_RDWR | O_CLOEXEC);
    if (descriptor < 0) return;
    void *shared = mmap(NULL, sizeof *table, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    close(descriptor);
    if (getenv("REFUSE_SUFFIX")) suffix = getenv("REFUSE_SUFFIX");
    if (shared != MAP_FAILED) table = shared;
}

static int refuses_path(enum kind kind, const char *path) {
    if (!table || strncmp(path, under, strlen(under)) != 0) return 0;
    size_t length = strlen(path), end = strlen(suffix);
    if (length < end || strcmp(path + length - end, suffix) != 0) return 0;
    long number = atomic_fetch_add(&table->counts[kind], 1);
    if ((long)kind != table->kind || number != table->at) return 0;
    dprintf(2, "refused: call %ld of kind %d on %s\n", number, kind, path);
    errno = (int)table->code;
    return 1;
}

static int refuses(enum kind kind, int descriptor) {
    char link[32], path[PATH_MAX];
    if (!table || descriptor < 0) return 0;
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
int mkdir(const char *path, mode_t mode) {
    return refuses_path(FOLDER, path) ? -1 : NEXT(mkdir)(path, mode);
}
ssize_t read(int file, void *data, size_t size) {
    return refuses(READ, file) ? -1 : NEXT(read)(file, data, size);
}
ssize_t pread(int file, void *data, size_t size, off_t position) {
    return refuses(READ, file) ? -1 : NEXT(pread)(file, data, size, position);
}
ssize_t pread64(int file, void *data, size_t size, off64_t position) {
    return refuses(READ, file) ? -1 : NEXT(pread64)(file, data, size, position);
}
void *mmap(void *place, size_t size, int access, int flags, int file, off_t position) {
    return refuses(MAP, file) ? MAP_FAILED : NEXT(mmap)(place, size, access, flags, file, position);
}
void *mmap64(void *place, size_t size, int access, int flags, int file, off64_t position) {
    return refuses(MAP, file) ? MAP_FAILED : NEXT(mmap64)(place, size, access, flags, file, position);
}

#define LOOKS(name, type)                                                    \
    int name(const char *path, struct type *found) {                         \
        return refuses_path(LOOK, path) ? -1 : NEXT(name)(path, found);      \
    }
LOOKS(stat, stat)
LOOKS(stat64, stat64)
LOOKS(lstat, stat)
LOOKS(lstat64, stat64)
int fstat(int file, struct stat *found) { return refuses(LOOK, file) ? -1 : NEXT(fstat)(file, found); }
int fstat64(int file, struct stat64 *found) { return refuses(LOOK, file) ? -1 : NEXT(fstat64)(file, found); }
