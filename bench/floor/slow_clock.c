/* A monotonic clock that hardly moves from when a file is there, for a program that valgrind makes slow.
 *
 *   LD_PRELOAD=slow_clock.so SLOW_FROM=FILE valgrind PROGRAM ...
 *
 * What a broker does for at most some milliseconds in one go is as much work then as it is without valgrind.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SLOWER = 1000 };

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int64_t slow_since;
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (failed || clock != CLOCK_MONOTONIC) return failed;
    int64_t ns = now->tv_sec * INT64_C(1000000000) + now->tv_nsec;
    if (!slow_since) {
        const char *file = getenv("SLOW_FROM");
        if (!file || access(file, F_OK)) return 0;
        slow_since = ns;
    }
    ns = slow_since + (ns - slow_since) / SLOWER;
    *now = (struct timespec){ns / 1000000000, ns % 1000000000};
    return 0;
}
