// fail_call.c: a library to preload that makes the n-th call of the system under a directory fail, and maybe all after it.
//
// FAIL_CALL="N ERRNO ONWARDS" says which call fails (0 for none), how, and whether the later ones do as well; FAIL_UNDER
// is the directory; how many calls there were is written to the file FAIL_REPORT when the process exits. ENOSPC is given
// only to calls that take space, EIO to all. Calls that libc does not make, such as those of io_uring or of a library
// that enters the kernel by itself, are not seen. A write whose number is odd is done in part first, and the call after
// it fails.
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
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static long fail_at, fail_errno, fail_onwards;
static const char *under;
static size_t under_size;
static atomic_long calls, failed;

// A write was done in part: the next call fails.
static atomic_int is_due;

__attribute__((constructor)) static void begin(void) {
    const char *call = getenv("FAIL_CALL");
    under = getenv("FAIL_UNDER");
    under_size = under ? strlen(under) : 0;
    if (call) sscanf(call, "%ld %ld %ld", &fail_at, &fail_errno, &fail_onwards);
}

__attribute__((destructor)) static void end(void) {
    const char *report = getenv("FAIL_REPORT");
    FILE *file = report ? fopen(report, "w") : NULL;
    if (!file) return;
    fprintf(file, "%ld %ld\n", (long)calls, (long)failed);
    fclose(file);
}

// Whether this call, which takes space or does not, is the one.
static int counts(int takes_space) {
    if (fail_errno == ENOSPC && !takes_space) return 0;
    long number = atomic_fetch_add(&calls, 1) + 1;
    if (!atomic_exchange(&is_due, 0) && (number < fail_at || (number > fail_at && !fail_onwards))) return 0;
    if (fail_at == 0) return 0;
    atomic_fetch_add(&failed, 1);
    errno = (int)fail_errno;
    return 1;
}

// Whether a write that is to fail is done in part first.
static int is_partial(size_t size) {
    if (size < 2 || fail_at % 2 == 0 || failed > 1) return 0;
    atomic_store(&is_due, 1);
    return 1;
}

static int descriptor_is_under(int descriptor) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    int saved = errno;
    ssize_t size = readlink(link, path, sizeof path - 1);
    errno = saved;
    return under && size >= (ssize_t)under_size && !strncmp(path, under, under_size);
}

// A path, or one that leads through a descriptor.
static int path_fails(const char *path, int takes_space) {
    int descriptor;
    if (!under || !path) return 0;
    int is_under = sscanf(path, "/proc/self/fd/%d/", &descriptor) == 1 ? descriptor_is_under(descriptor)
                                                                       : !strncmp(path, under, under_size);
    return is_under && counts(takes_space);
}

static int descriptor_fails(int descriptor, int takes_space) {
    return descriptor_is_under(descriptor) && counts(takes_space);
}

static int at_fails(int directory, const char *path, int takes_space) {
    if (path && path[0] == '/') return path_fails(path, takes_space);
    return directory >= 0 && descriptor_fails(directory, takes_space);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define OPEN(name)                                                        \
    int name(const char *path, int flags, ...) {                          \
        va_list rest;                                                     \
        va_start(rest, flags);                                            \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest);                                                     \
        if (path_fails(path, flags & O_CREAT)) return -1;                 \
        return REAL(name)(path, flags, mode);                             \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                      \
    int name(int directory, const char *path, int flags, ...) {           \
        va_list rest;                                                     \
        va_start(rest, flags);                                            \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest);                                                     \
        if (at_fails(directory, path, flags & O_CREAT)) return -1;        \
        return REAL(name)(directory, path, flags, mode);                  \
    }
OPENAT(openat)
OPENAT(openat64)

ssize_t write(int descriptor, const void *bytes, size_t size) {
    if (descriptor > 2 && descriptor_fails(descriptor, 1)) {
        if (!is_partial(size)) return -1;
        return REAL(write)(descriptor, bytes, size / 2);
    }
    return REAL(write)(descriptor, bytes, size);
}

#define PWRITE(name, offset_type)                                                      \
    ssize_t name(int descriptor, const void *bytes, size_t size, offset_type offset) { \
        if (descriptor_fails(descriptor, 1)) {                                         \
            if (!is_partial(size)) return -1;                                          \
            return REAL(name)(descriptor, bytes, size / 2, offset);                    \
        }                                                                              \
        return REAL(name)(descriptor, bytes, size, offset);                            \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

// WRAP(TYPE, NAME, PARAMETERS, ARGUMENTS, FAILS, RESULT): any other call.
#define WRAP(type, name, parameters, arguments, fails, result) \
    type name parameters {                                     \
        if (fails) return result;                              \
        return REAL(name) arguments;                           \
    }
WRAP(ssize_t, writev, (int fd, const struct iovec *v, int n), (fd, v, n), fd > 2 && descriptor_fails(fd, 1), -1)
WRAP(ssize_t, read, (int fd, void *b, size_t n), (fd, b, n), fd > 2 && descriptor_fails(fd, 0), -1)
WRAP(ssize_t, pread, (int fd, void *b, size_t n, off_t o), (fd, b, n, o), descriptor_fails(fd, 0), -1)
WRAP(ssize_t, pread64, (int fd, void *b, size_t n, off64_t o), (fd, b, n, o), descriptor_fails(fd, 0), -1)
WRAP(int, fsync, (int fd), (fd), descriptor_fails(fd, 1), -1)
WRAP(int, fdatasync, (int fd), (fd), descriptor_fails(fd, 1), -1)
WRAP(int, sync_file_range, (int fd, off64_t o, off64_t n, unsigned f), (fd, o, n, f), descriptor_fails(fd, 1), -1)
WRAP(int, ftruncate, (int fd, off_t n), (fd, n), descriptor_fails(fd, 1), -1)
WRAP(int, ftruncate64, (int fd, off64_t n), (fd, n), descriptor_fails(fd, 1), -1)
WRAP(int, fallocate, (int fd, int m, off_t o, off_t n), (fd, m, o, n), descriptor_fails(fd, 1), -1)
WRAP(int, fallocate64, (int fd, int m, off64_t o, off64_t n), (fd, m, o, n), descriptor_fails(fd, 1), -1)
WRAP(int, posix_fallocate, (int fd, off_t o, off_t n), (fd, o, n), descriptor_fails(fd, 1), (int)fail_errno)
WRAP(int, posix_fallocate64, (int fd, off64_t o, off64_t n), (fd, o, n), descriptor_fails(fd, 1), (int)fail_errno)
WRAP(int, flock, (int fd, int o), (fd, o), descriptor_fails(fd, 0), -1)
WRAP(int, rename, (const char *a, const char *b), (a, b), path_fails(b, 1), -1)
WRAP(int, renameat, (int d, const char *a, int e, const char *b), (d, a, e, b), at_fails(e, b, 1), -1)
WRAP(int, renameat2, (int d, const char *a, int e, const char *b, unsigned f), (d, a, e, b, f), at_fails(e, b, 1), -1)
WRAP(int, unlink, (const char *a), (a), path_fails(a, 0), -1)
WRAP(int, unlinkat, (int d, const char *a, int f), (d, a, f), at_fails(d, a, 0), -1)
WRAP(int, rmdir, (const char *a), (a), path_fails(a, 0), -1)
WRAP(int, mkdir, (const char *a, mode_t m), (a, m), path_fails(a, 1), -1)
WRAP(int, mkdirat, (int d, const char *a, mode_t m), (d, a, m), at_fails(d, a, 1), -1)
WRAP(void *, mmap, (void *p, size_t n, int q, int f, int fd, off_t o), (p, n, q, f, fd, o),
     fd > 2 && descriptor_fails(fd, 0), MAP_FAILED)
WRAP(void *, mmap64, (void *p, size_t n, int q, int f, int fd, off64_t o), (p, n, q, f, fd, o),
     fd > 2 && descriptor_fails(fd, 0), MAP_FAILED)
