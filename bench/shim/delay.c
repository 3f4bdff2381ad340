/*
 * Makes the disk slow: every fsync and fdatasync of a process that preloads this takes FSYNC_DELAY_US microseconds
 * longer, after the real one is done. Whoever calls it, SQLite or a thread pool, waits in its own thread.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>

static void wait_longer(void) {
  const char *text = getenv("FSYNC_DELAY_US");
  long us = text == NULL ? 0 : atol(text);
  struct timespec left = {us / 1000000, (us % 1000000) * 1000};
  int saved = errno;
  while (us > 0 && nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
  errno = saved;
}

int fsync(int fd) {
  static int (*real)(int);
  if (real == NULL) real = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
  int result = real(fd);
  wait_longer();
  return result;
}

int fdatasync(int fd) {
  static int (*real)(int);
  if (real == NULL) real = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
  int result = real(fd);
  wait_longer();
  return result;
}
