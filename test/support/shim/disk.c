/*
 * Stands between a process and its disk (LD_PRELOAD): records what the process asks the kernel to do with the files of one
 * folder, and what it sends over the network, in one order; makes syncs slow or fail; and lets a disk be full.
 *
 *   DISK_FOLDER      the folder whose files are watched (an absolute path, without a trailing slash)
 *   DISK_LOG         the file to append records to; none are written without it
 *   DISK_SYNC_US     microseconds added to each fsync and fdatasync, between its begin and its end
 *   DISK_SYNC_FAILS  while this file exists, fsync and fdatasync fail with EIO, and what was written is not on disk
 *   DISK_SYNC_FAILS_ON  only for files whose names end so
 *   DISK_SYNC_LIES   when set, fsync and fdatasync say that all is well and do nothing: a test of the tests
 *   DISK_FULL        while this file exists, writes that need room fail with ENOSPC, some of them half done
 *   DISK_READ_ONLY   while this file exists, every write fails with EROFS
 *
 * A record is appended with one write() on an O_APPEND descriptor: that is what orders threads and processes. Writes are
 * recorded once they are done and sends before they leave, so that the log never makes a promise look earlier, or a
 * disclosure later, than it was.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { OPEN = 1, CLOSE, WRITE, TRUNCATE, SYNC_BEGIN, SYNC_END, UNLINK, RENAME, SOCKET, SEND, SENT };
enum { OTHER = 0, WATCHED = 1, NETWORK = 2 };
enum { CREATED = 1, EMPTIED = 2, FAILED = 4 };

struct header {
  uint32_t bytes; /* of the whole record */
  uint32_t kind;
  uint32_t flags;
  uint32_t pid;
  int32_t fd;
  uint32_t path_bytes;
  uint64_t at; /* offset, length or serial number */
};

#define FDS_MAX 65536
static unsigned char kinds[FDS_MAX], may_fail[FDS_MAX];
static const char *folder, *sync_fails, *sync_fails_on, *full, *read_only;
static size_t folder_bytes;
static int log_fd = -1;
static long sync_us;
static int sync_lies;
static uint64_t serials;

typedef long (*system_call)(long, ...);
static system_call libc_syscall;

/* libc's own, past the one below; other libraries may write before this one has begun. */
static system_call find_syscall(void) {
  if (libc_syscall == NULL) libc_syscall = (system_call)dlsym(RTLD_NEXT, "syscall");
  if (libc_syscall == NULL) abort();
  return libc_syscall;
}
#define kernel(...) (find_syscall()(__VA_ARGS__))

__attribute__((constructor)) static void begin(void) {
  folder = getenv("DISK_FOLDER");
  folder_bytes = folder == NULL ? 0 : strlen(folder);
  sync_fails = getenv("DISK_SYNC_FAILS");
  sync_fails_on = getenv("DISK_SYNC_FAILS_ON");
  full = getenv("DISK_FULL");
  read_only = getenv("DISK_READ_ONLY");
  sync_lies = getenv("DISK_SYNC_LIES") != NULL;
  const char *us = getenv("DISK_SYNC_US");
  sync_us = us == NULL ? 0 : atol(us);
  const char *path = getenv("DISK_LOG");
  if (path == NULL) return;
  int fd = (int)kernel(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  /* Out of the way: a program may count on getting the lowest numbers. */
  log_fd = fd < 0 ? -1 : (int)kernel(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 900);
  if (log_fd < 0) abort();
  kernel(SYS_close, fd);
}

static void record(int kind, int flags, int fd, uint64_t at, const char *path, const struct iovec *parts, int count, size_t data_bytes) {
  if (log_fd < 0) return;
  int saved = errno;
  size_t path_bytes = path == NULL ? 0 : strlen(path);
  size_t bytes = sizeof(struct header) + path_bytes + data_bytes;
  char small[8192];
  char *all = bytes <= sizeof small ? small : malloc(bytes);
  if (all == NULL) abort();
  struct header head = {(uint32_t)bytes, (uint32_t)kind, (uint32_t)flags, (uint32_t)getpid(), fd, (uint32_t)path_bytes, at};
  char *to = all;
  memcpy(to, &head, sizeof head), to += sizeof head;
  memcpy(to, path, path_bytes), to += path_bytes;
  for (int i = 0; i < count && data_bytes > 0; i++) {
    size_t some = parts[i].iov_len < data_bytes ? parts[i].iov_len : data_bytes;
    memcpy(to, parts[i].iov_base, some), to += some;
    data_bytes -= some;
  }
  /* Straight to the kernel: the log's own writes are not recorded. A log with a hole would prove nothing. */
  if (kernel(SYS_write, log_fd, all, bytes) != (long)bytes) abort();
  if (all != small) free(all);
  errno = saved;
}

static void note(int kind, int flags, int fd, uint64_t at, const char *path) { record(kind, flags, fd, at, path, NULL, 0, 0); }

static int kind_of(int fd) { return fd >= 0 && fd < FDS_MAX ? kinds[fd] : OTHER; }

static void set_kind(int fd, int kind) {
  if (fd >= FDS_MAX) abort();
  if (fd >= 0) kinds[fd] = (unsigned char)kind;
}

/* The folder itself counts: it is opened to sync what was created in it. */
static int is_watched(const char *path) {
  if (folder == NULL || path == NULL || strncmp(path, folder, folder_bytes) != 0) return 0;
  return path[folder_bytes] == '/' || path[folder_bytes] == '\0';
}

static int exists(const char *path) {
  int saved = errno;
  long there = path != NULL && kernel(SYS_faccessat, AT_FDCWD, path, F_OK) == 0;
  errno = saved;
  return (int)there;
}

/* --- what a disk refuses ------------------------------------------------------------------------------------------ */

/* How much of a write goes through: all, some (the disk is full in the middle of it), or an error. */
static ssize_t room_for(size_t bytes) {
  if (read_only != NULL && exists(read_only)) return errno = EROFS, -1;
  if (full == NULL || !exists(full)) return (ssize_t)bytes;
  if (bytes > 512 && bytes % 1024 == 0) return (ssize_t)(bytes / 2); /* a page, say: half of it still fitted */
  return errno = ENOSPC, -1;
}

/* --- files ---------------------------------------------------------------------------------------------------------- */

static int ends_so(const char *path, const char *end) {
  size_t bytes = strlen(path), end_bytes = end == NULL ? 0 : strlen(end);
  return bytes >= end_bytes && (end == NULL || strcmp(path + bytes - end_bytes, end) == 0);
}

static int opened(int fd, const char *path, int flags, int was_there) {
  set_kind(fd, OTHER);
  if (fd < 0 || !is_watched(path)) return fd;
  set_kind(fd, WATCHED);
  may_fail[fd] = (unsigned char)ends_so(path, sync_fails_on);
  note(OPEN, ((flags & O_CREAT) != 0 && !was_there ? CREATED : 0) | ((flags & O_TRUNC) != 0 ? EMPTIED : 0), fd, 0, path);
  return fd;
}

static int open_at(int dir, const char *path, int flags, mode_t mode) {
  int was_there = is_watched(path) && exists(path);
  if (is_watched(path) && !was_there && (flags & O_CREAT) != 0 && room_for(1) < 0) return -1;
  return opened((int)kernel(SYS_openat, dir, path, flags, mode), path, flags, was_there);
}

static mode_t mode_of(int flags, va_list rest) { return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0; }

#define MODE                 \
  va_list rest;              \
  va_start(rest, flags);     \
  mode_t mode = mode_of(flags, rest); \
  va_end(rest)

int open(const char *path, int flags, ...) { MODE; return open_at(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE; return open_at(AT_FDCWD, path, flags | O_LARGEFILE, mode); }
int openat(int dir, const char *path, int flags, ...) { MODE; return open_at(dir, path, flags, mode); }
int openat64(int dir, const char *path, int flags, ...) { MODE; return open_at(dir, path, flags | O_LARGEFILE, mode); }

static void closing(int fd) {
  if (kind_of(fd) != OTHER) note(CLOSE, 0, fd, 0, NULL);
  set_kind(fd, OTHER);
}

int close(int fd) {
  if (fd == log_fd && fd >= 0) return 0;
  closing(fd);
  return (int)kernel(SYS_close, fd);
}

/* libuv closes, and may do more, by number. */
long syscall(long number, ...) {
  va_list rest;
  va_start(rest, number);
  long a = va_arg(rest, long), b = va_arg(rest, long), c = va_arg(rest, long), d = va_arg(rest, long), e = va_arg(rest, long), f = va_arg(rest, long);
  va_end(rest);
  if (number == SYS_close) return close((int)a);
  return kernel(number, a, b, c, d, e, f);
}

static void written(int fd, off_t at, const struct iovec *parts, int count, ssize_t done) {
  if (done > 0) record(WRITE, 0, fd, (uint64_t)at, NULL, parts, count, (size_t)done);
}

ssize_t pwrite64(int fd, const void *data, size_t bytes, off64_t at) {
  if (kind_of(fd) != WATCHED) return kernel(SYS_pwrite64, fd, data, bytes, at);
  ssize_t some = room_for(bytes);
  if (some < 0) return -1;
  ssize_t done = kernel(SYS_pwrite64, fd, data, some, at);
  struct iovec part = {(void *)data, bytes};
  written(fd, at, &part, 1, done);
  return done;
}
ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at) { return pwrite64(fd, data, bytes, at); }

static size_t total(const struct iovec *parts, int count) {
  size_t bytes = 0;
  for (int i = 0; i < count; i++) bytes += parts[i].iov_len;
  return bytes;
}

/* Sends are recorded whole before they leave; SENT follows when less was taken. */
static ssize_t sent(int fd, size_t bytes, ssize_t done) {
  if (done != (ssize_t)bytes) note(SENT, 0, fd, done < 0 ? 0 : (uint64_t)done, NULL);
  return done;
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
  int kind = kind_of(fd);
  if (kind == NETWORK) {
    record(SEND, 0, fd, 0, NULL, parts, count, total(parts, count));
    return sent(fd, total(parts, count), kernel(SYS_writev, fd, parts, count));
  }
  if (kind != WATCHED) return kernel(SYS_writev, fd, parts, count);
  if (room_for(1) < 0) return -1;
  ssize_t done = kernel(SYS_writev, fd, parts, count);
  written(fd, lseek(fd, 0, SEEK_CUR) - done, parts, count, done);
  return done;
}

ssize_t write(int fd, const void *data, size_t bytes) {
  int kind = kind_of(fd);
  struct iovec part = {(void *)data, bytes};
  if (kind == NETWORK) return writev(fd, &part, 1);
  if (kind != WATCHED) return kernel(SYS_write, fd, data, bytes);
  ssize_t some = room_for(bytes);
  if (some < 0) return -1;
  ssize_t done = kernel(SYS_write, fd, data, some);
  written(fd, lseek(fd, 0, SEEK_CUR) - done, &part, 1, done);
  return done;
}

int ftruncate64(int fd, off64_t bytes) {
  int watched = kind_of(fd) == WATCHED;
  struct stat was;
  if (watched && fstat(fd, &was) == 0 && bytes > was.st_size && room_for(1) < 0) return -1;
  int answer = (int)kernel(SYS_ftruncate, fd, bytes);
  if (watched && answer == 0) note(TRUNCATE, 0, fd, (uint64_t)bytes, NULL);
  return answer;
}
int ftruncate(int fd, off_t bytes) { return ftruncate64(fd, bytes); }

int fallocate64(int fd, int mode, off64_t at, off64_t bytes) {
  int watched = kind_of(fd) == WATCHED;
  if (watched && room_for(1) < 0) return -1;
  int answer = (int)kernel(SYS_fallocate, fd, mode, at, bytes);
  struct stat is;
  if (watched && answer == 0 && fstat(fd, &is) == 0) note(TRUNCATE, 0, fd, (uint64_t)is.st_size, NULL);
  return answer;
}
int fallocate(int fd, int mode, off_t at, off_t bytes) { return fallocate64(fd, mode, at, bytes); }
int posix_fallocate64(int fd, off64_t at, off64_t bytes) { return fallocate64(fd, 0, at, bytes) == 0 ? 0 : errno; }
int posix_fallocate(int fd, off_t at, off_t bytes) { return posix_fallocate64(fd, at, bytes); }

static int sync_by(long number, int fd) {
  if (kind_of(fd) != WATCHED) return (int)kernel(number, fd);
  if (sync_lies) return 0;
  uint64_t serial = __atomic_add_fetch(&serials, 1, __ATOMIC_SEQ_CST);
  note(SYNC_BEGIN, 0, fd, serial, NULL);
  if (sync_us > 0) {
    struct timespec pause = {sync_us / 1000000, sync_us % 1000000 * 1000};
    nanosleep(&pause, NULL);
  }
  int fails = may_fail[fd] && sync_fails != NULL && exists(sync_fails);
  int answer = fails ? (errno = EIO, -1) : (int)kernel(number, fd);
  note(SYNC_END, answer == 0 ? 0 : FAILED, fd, serial, NULL);
  return answer;
}

int fsync(int fd) { return sync_by(SYS_fsync, fd); }
int fdatasync(int fd) { return sync_by(SYS_fdatasync, fd); }

static int removed(const char *path, int answer) {
  if (answer == 0 && is_watched(path)) note(UNLINK, 0, -1, 0, path);
  return answer;
}
int unlink(const char *path) { return removed(path, (int)kernel(SYS_unlinkat, AT_FDCWD, path, 0)); }
int unlinkat(int dir, const char *path, int flags) { return removed(path, (int)kernel(SYS_unlinkat, dir, path, flags)); }

int rename(const char *from, const char *to) {
  int answer = (int)kernel(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
  if (answer != 0 || !(is_watched(from) || is_watched(to))) return answer;
  struct iovec part = {(void *)to, strlen(to)};
  record(RENAME, 0, -1, 0, from, &part, 1, part.iov_len);
  return answer;
}

/* --- the network ---------------------------------------------------------------------------------------------------- */

static int on_network(int fd, int domain) {
  set_kind(fd, OTHER);
  if (fd < 0 || (domain != AF_INET && domain != AF_INET6)) return fd;
  set_kind(fd, NETWORK);
  note(SOCKET, 0, fd, 0, NULL);
  return fd;
}

int socket(int domain, int type, int protocol) { return on_network((int)kernel(SYS_socket, domain, type, protocol), domain); }

int accept4(int fd, struct sockaddr *address, socklen_t *bytes, int flags) {
  int domain = AF_UNSPEC;
  socklen_t size = sizeof domain;
  if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0) domain = AF_UNSPEC;
  return on_network((int)kernel(SYS_accept4, fd, address, bytes, flags), domain);
}
int accept(int fd, struct sockaddr *address, socklen_t *bytes) { return accept4(fd, address, bytes, 0); }

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
  if (kind_of(fd) != NETWORK) return kernel(SYS_sendmsg, fd, message, flags);
  size_t bytes = total(message->msg_iov, (int)message->msg_iovlen);
  record(SEND, 0, fd, 0, NULL, message->msg_iov, (int)message->msg_iovlen, bytes);
  return sent(fd, bytes, kernel(SYS_sendmsg, fd, message, flags));
}
