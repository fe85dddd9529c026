/* A pool of threads that waits for kernels. Not OpenMP: its library would have to be the one that torch brings. */
#include "threads.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 256, SPINS = 2000 };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t busy = PTHREAD_MUTEX_INITIALIZER; /* held by the caller whose parts the pool does */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER, done = PTHREAD_COND_INITIALIZER;
static int64_t workers, wanted;
static int open;
static uint64_t job;
static atomic_int running;
static void (*work)(const void *, int64_t);
static const void *argument;
static int64_t parts;
static atomic_int_fast64_t next;

static pthread_key_t memory_key;

static void take_parts(void) {
    for (int64_t part; (part = atomic_fetch_add(&next, 1)) < parts;) work(argument, part);
}

static void *wait_for_work(void *number) {
    uint64_t seen = 0;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (job == seen || !open || (intptr_t)number >= wanted) {
            seen = job;
            pthread_cond_wait(&wake, &lock);
        }
        seen = job;
        atomic_fetch_add(&running, 1);
        pthread_mutex_unlock(&lock);
        take_parts();
        pthread_mutex_lock(&lock);
        if (atomic_fetch_sub(&running, 1) == 1) pthread_cond_signal(&done);
    }
    return NULL;
}

static void forget_workers(void) { /* in the child of a fork, which has the memory and none of the threads */
    pthread_mutex_init(&busy, NULL);
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&wake, NULL);
    pthread_cond_init(&done, NULL);
    workers = open = 0;
    atomic_store(&running, 0);
}

static void prepare(void) {
    pthread_key_create(&memory_key, free);
#ifndef _WIN32
    pthread_atfork(NULL, NULL, forget_workers);
#endif
}

static void start_workers(int64_t count) {
    pthread_attr_t apart;
    pthread_attr_init(&apart);
    pthread_attr_setdetachstate(&apart, PTHREAD_CREATE_DETACHED);
    for (pthread_t thread; workers < count; workers++)
        if (pthread_create(&thread, &apart, wait_for_work, (void *)(intptr_t)workers)) break; /* fewer will do */
    pthread_attr_destroy(&apart);
}

void libranet_run_parts(int64_t threads, int64_t parts_, void (*work_)(const void *, int64_t), const void *argument_) {
    pthread_once(&once, prepare);
    int64_t helpers = (threads < parts_ ? threads : parts_) - 1;
    /* A second caller meanwhile has a core of its own at most: it works alone. */
    if (helpers < 1 || pthread_mutex_trylock(&busy)) {
        for (int64_t part = 0; part < parts_; part++) work_(argument_, part);
        return;
    }
    pthread_mutex_lock(&lock);
    if (helpers > MOST) helpers = MOST;
    if (workers < helpers) start_workers(helpers);
    work = work_, argument = argument_, parts = parts_, wanted = helpers, open = 1, job++;
    atomic_store(&next, 0);
    pthread_cond_broadcast(&wake);
    pthread_mutex_unlock(&lock);
    take_parts();
    for (int spin = 0; spin < SPINS && atomic_load(&running); spin++) continue; /* the others are about to end, too */
    pthread_mutex_lock(&lock);
    open = 0;
    while (atomic_load(&running)) pthread_cond_wait(&done, &lock);
    pthread_mutex_unlock(&lock);
    pthread_mutex_unlock(&busy);
}

struct memory {
    size_t bytes;
    char *begin;
};

void *libranet_scratch(size_t bytes) {
    pthread_once(&once, prepare);
    struct memory *mine = pthread_getspecific(memory_key);
    if (!mine || mine->bytes < bytes) {
        free(mine);
        mine = calloc(1, sizeof *mine + bytes + 64);
        if (!mine) abort();
        mine->bytes = bytes;
        mine->begin = (char *)(((uintptr_t)(mine + 1) + 63) & ~(uintptr_t)63);
        pthread_setspecific(memory_key, mine);
    }
    return mine->begin;
}
