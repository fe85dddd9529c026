/* Vectors of floats, as wide as the level that this file is compiled for, and how maps and weights store numbers.
 *
 * Every kernel file is compiled once per level (hatch_build.py): LEVEL ends the names of its functions, and the
 * compiler's flags say which instructions it may use. GCC's and Clang's vector types need no intrinsics, so one source
 * serves SSE2, AVX2, AVX-512 and NEON; only bfloat16 has instructions of its own.
 */
#ifndef LIBRANET_VECTORS_H
#define LIBRANET_VECTORS_H

#include <stdint.h>

#define JOIN(name, level) name##_##level
#define JOINED(name, level) JOIN(name, level)
#define EXPORT(name) __attribute__((visibility("default"))) void JOINED(name, LEVEL)
#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

/* PANEL: columns of a matrix product that are stored side by side. ROWS and PANELS: a block of a product, as many sums
 * as the CPU has registers for beside its operands. REST: rows of the blocks for what whole ones leave. */
#define PANEL 16
#if defined(__AVX512F__)
enum { LANES = 16, ROWS = 12, REST = 4, PANELS = 2 };
#elif defined(__AVX2__)
enum { LANES = 8, ROWS = 6, REST = 2, PANELS = 1 };
#elif defined(__aarch64__)
enum { LANES = 4, ROWS = 6, REST = 2, PANELS = 1 };
#else
enum { LANES = 4, ROWS = 2, REST = 2, PANELS = 1 };
#endif
enum { VECTORS = PANEL / LANES };

typedef float vector __attribute__((vector_size(4 * LANES)));
typedef float floats __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

#if defined(__AVX512F__) || defined(__AVX2__) || defined(__SSE2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#if defined(__AVX512BF16__)
#define HAS_HALF 1
#else
#define HAS_HALF 0
#endif

/* `half` is a constant wherever these are inlined: whether the numbers are stored in bfloat16 or in float32. */
INLINE vector load(const void *numbers, int64_t place, int half) {
#if HAS_HALF
    if (half) {
        __m256i words = _mm256_loadu_si256((const void *)((const uint16_t *)numbers + place));
        return (vector)_mm512_slli_epi32(_mm512_cvtepu16_epi32(words), 16);
    }
#endif
    return *(const floats *)((const float *)numbers + place);
}

INLINE void store(vector value, void *numbers, int64_t place, int half) {
#if HAS_HALF
    if (half) {
        _mm256_storeu_si256((void *)((uint16_t *)numbers + place), (__m256i)_mm512_cvtneps_pbh((__m512)value));
        return;
    }
#endif
    *(floats *)((float *)numbers + place) = value;
}

INLINE vector spread_value(float value) { return value - (vector){0}; }

/* C has no ?: for vectors. */
INLINE vector smaller(vector a, vector b) {
#if defined(__AVX512F__)
    return (vector)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
    return (vector)_mm256_min_ps((__m256)a, (__m256)b);
#elif defined(__SSE2__)
    return (vector)_mm_min_ps((__m128)a, (__m128)b);
#elif defined(__aarch64__)
    return (vector)vminq_f32((float32x4_t)a, (float32x4_t)b);
#else
    for (int lane = 0; lane < LANES; lane++) a[lane] = a[lane] < b[lane] ? a[lane] : b[lane];
    return a;
#endif
}

INLINE const void *at(const void *numbers, int64_t place, int half) {
    return (const char *)numbers + (half ? 2 : 4) * place;
}

#endif
