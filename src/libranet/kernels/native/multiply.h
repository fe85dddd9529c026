/* A block of a matrix product, its sums in registers. */
#ifndef LIBRANET_MULTIPLY_H
#define LIBRANET_MULTIPLY_H

#include "vectors.h"

/* c = a @ b, plus the bias, plus the block of `skip`, for `rows` rows and `panels` panels of columns.
 *
 * The steps of a, c and skip are the numbers from one row to the next, that of b those from panel to panel. b has
 * parts * depth rows; those of a are in so many parts, each `depth` long and `a_part` numbers behind the other. In
 * bfloat16 depth is even and two rows of b lie interleaved. Without bias or skip these are NULL. */
struct product {
    const void *a;
    int64_t a_step, a_part, parts;
    const void *b;
    int64_t b_step, depth;
    void *c;
    int64_t c_step;
    const float *bias;
    const void *skip;
    int64_t skip_step;
};

INLINE void multiply(struct product p, int rows, int panels, int half, int c_half, int skip_half) {
    int columns = panels * VECTORS;
    vector sums[ROWS][PANELS * VECTORS];
    UNROLL for (int row = 0; row < rows; row++)
        UNROLL for (int v = 0; v < columns; v++) {
            sums[row][v] = p.bias ? load(p.bias, v * LANES, 0) : (vector){0};
            if (p.skip) sums[row][v] += load(p.skip, row * p.skip_step + v * LANES, skip_half);
        }
    for (int64_t part = 0; part < p.parts; part++) {
        const void *a = at(p.a, part * p.a_part, half);
        const void *b = at(p.b, part * p.depth * PANEL, half);
#if HAS_HALF
        if (half) {
            /* Rows from three starting points: with a pointer for each row the compiler would run out of registers. */
            const char *starts[ROWS];
            int64_t step = 2 * p.a_step;
            UNROLL for (int row = 0; row < rows; row += 3) {
                starts[row] = (const char *)a + row * step;
                __asm__("" : "+r"(starts[row]));
            }
            for (int64_t k = 0; k < p.depth / 2; k++) {
                __m512bh right[PANELS];
                UNROLL for (int v = 0; v < panels; v++)
                    right[v] = (__m512bh)_mm512_loadu_si512(at(b, v * p.b_step + k * 2 * PANEL, 1));
                UNROLL for (int row = 0; row < rows; row++) {
                    const char *start = starts[row / 3 * 3];
                    __m512bh left = (__m512bh)_mm512_set1_epi32(*(const int32_t *)(start + row % 3 * step));
                    UNROLL for (int v = 0; v < panels; v++)
                        sums[row][v] = (vector)_mm512_dpbf16_ps((__m512)sums[row][v], left, right[v]);
                }
                UNROLL for (int row = 0; row < rows; row += 3) {
                    starts[row] += 4;
                    __asm__("" : "+r"(starts[row]));
                }
            }
            continue;
        }
#endif
        for (int64_t k = 0; k < p.depth; k++) {
            vector right[PANELS * VECTORS];
            UNROLL for (int v = 0; v < columns; v++)
                right[v] = load(b, v / VECTORS * p.b_step + k * PANEL + v % VECTORS * LANES, 0);
            UNROLL for (int row = 0; row < rows; row++) {
                vector left = spread_value(((const float *)a)[row * p.a_step + k]);
                UNROLL for (int v = 0; v < columns; v++) sums[row][v] += left * right[v];
            }
        }
    }
    UNROLL for (int row = 0; row < rows; row++)
        UNROLL for (int v = 0; v < columns; v++) store(sums[row][v], p.c, row * p.c_step + v * LANES, c_half);
}

#endif
