// SPDX-License-Identifier: Apache-2.0
/* A library to be preloaded (LD_PRELOAD) that makes one of a program's calls for files fail, or
 * ends the program there: for tests whose failures and signals come at a counted call, and never
 * after a time. In the environment:
 *
 *     FAIL_AT      the call, from 1 on; 0: none, they are only counted
 *     FAIL_WITH    the errno, or -N: signal N is raised instead, before the call
 *     FAIL_NAME    only calls of this function count; else of all for files. It may also be
 *                  sigpending, which asks whether a blocked signal came, or clock_gettime
 *     FAIL_ALWAYS  a function every call of which fails, with FAIL_ALWAYS_WITH
 *     FAIL_COUNT   a file that is given the number of calls at the end, one byte each
 *     CLOCK_MS     the clock's time is how often it was asked for, times so many milliseconds
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static atomic_int calls;

static int number_of(const char *name) {
    const char *text = getenv(name);
    return text ? atoi(text) : 0;
}

static void count(void) {
    const char *path = getenv("FAIL_COUNT");
    if (!path) return;
    long fd = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd < 0) return;
    syscall(SYS_write, fd, ".", 1);
    syscall(SYS_close, fd);
}

/* True where this call is to fail; errno is set. */
static int fails(const char *name) {
    const char *always = getenv("FAIL_ALWAYS"), *only = getenv("FAIL_NAME");
    if (always && strcmp(always, name) == 0) {
        errno = number_of("FAIL_ALWAYS_WITH");
        return 1;
    }
    if (only && strcmp(only, name) != 0) return 0;
    count();
    if (atomic_fetch_add(&calls, 1) + 1 != number_of("FAIL_AT")) return 0;
    int with = number_of("FAIL_WITH");
    if (with < 0) kill(getpid(), -with);
    if (with <= 0) return 0;
    errno = with;
    return 1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define OPEN(name)                                                                                 \
    int name(const char *path, int flags, ...) {                                                   \
        va_list more;                                                                              \
        va_start(more, flags);                                                                     \
        mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;                                  \
        va_end(more);                                                                              \
        return fails("open") ? -1 : REAL(name)(path, flags, mode);                                 \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                               \
    int name(int folder, const char *path, int flags, ...) {                                       \
        va_list more;                                                                              \
        va_start(more, flags);                                                                     \
        mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;                                  \
        va_end(more);                                                                              \
        return fails("openat") ? -1 : REAL(name)(folder, path, flags, mode);                       \
    }
OPENAT(openat)
OPENAT(openat64)

ssize_t write(int fd, const void *bytes, size_t size) {
    return fails("write") ? -1 : REAL(write)(fd, bytes, size);
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset) {
    return fails("pwrite") ? -1 : REAL(pwrite)(fd, bytes, size, offset);
}

ssize_t pread(int fd, void *bytes, size_t size, off_t offset) {
    return fails("pread") ? -1 : REAL(pread)(fd, bytes, size, offset);
}

int fsync(int fd) {
    return fails("fsync") ? -1 : REAL(fsync)(fd);
}

int fstat(int fd, struct stat *status) {
    return fails("fstat") ? -1 : REAL(fstat)(fd, status);
}

int fchmod(int fd, mode_t mode) {
    return fails("fchmod") ? -1 : REAL(fchmod)(fd, mode);
}

int close(int fd) {
    if (!fails("close")) return REAL(close)(fd);
    int with = errno;
    REAL(close)(fd); /* as Linux does: it is closed all the same */
    errno = with;
    return -1;
}

int renameat(int from, const char *old, int to, const char *new) {
    return fails("renameat") ? -1 : REAL(renameat)(from, old, to, new);
}

int mkdirat(int folder, const char *path, mode_t mode) {
    return fails("mkdirat") ? -1 : REAL(mkdirat)(folder, path, mode);
}

int sigpending(sigset_t *set) {
    if (getenv("FAIL_NAME") && fails("sigpending")) return -1;
    return REAL(sigpending)(set);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    static atomic_long asked;
    const int each = number_of("CLOCK_MS");
    if (getenv("FAIL_NAME") && fails("clock_gettime")) return -1;
    if (!each) return REAL(clock_gettime)(clock, time);
    const long now = (atomic_fetch_add(&asked, 1) + 1) * each;
    *time = (struct timespec){now / 1000, now % 1000 * 1000000};
    return 0;
}

/* renameat2 alone is called so, and openat2. */
long syscall(long number, ...) {
    long a[6];
    va_list more;
    va_start(more, number);
    for (int i = 0; i < 6; i++) a[i] = va_arg(more, long);
    va_end(more);
    if (number == SYS_renameat2 && fails("renameat2")) return -1;
    return REAL(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
