/* Parts of a kernel's work on several threads. */
#ifndef LIBRANET_THREADS_H
#define LIBRANET_THREADS_H

#include <stddef.h>
#include <stdint.h>

/* Do the parts 0 .. parts - 1, on at most so many threads; returns when all are done. */
void libranet_run_parts(int64_t threads, int64_t parts, void (*work)(const void *argument, int64_t part),
                        const void *argument);

/* Memory of the calling thread, aligned for vectors, until its next call; it begins as zeros. */
void *libranet_scratch(size_t bytes);

#endif
