/* Which levels of instructions this CPU has. */
#include <string.h>

__attribute__((visibility("default"))) int libranet_supports(const char *level) {
    if (!strcmp(level, "portable")) return 1;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!strcmp(level, "avx2")) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    int wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (!strcmp(level, "avx512")) return wide;
    if (!strcmp(level, "avx512bf16")) return wide && __builtin_cpu_supports("avx512bf16");
#endif
    return 0;
}

/* What the library was built from: a test compares it with the sources. */
__attribute__((visibility("default"))) const char *libranet_sources(void) { return SOURCES; }
