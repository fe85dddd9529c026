/* The colour field in one pass over the reduced frame: reference.py says what it computes. */
#include "../native/threads.h"
#include "../native/vectors.h"

#include <math.h>

/* Coefficients of a transform, 9 of a matrix and 3 of a translation, in the place of SIZE. PIXELS go through the Cayley
 * map at once. */
enum { COEFFICIENTS = 12, SIZE = PANEL, PIXELS = 16 };

struct field {
    const float *low;   /* [3, height, width] */
    const float *grid;  /* [bins, grid_height, grid_width, 2, SIZE], guided by red and by green, halved */
    const float *plane; /* [grid_height, grid_width, SIZE] */
    float *small, *delta; /* [3, height, width] */
    int64_t height, width, bins, grid_height, grid_width;
    float singular;
};

INLINE float hold(float x, float last) {
    x = x > 0.0f ? x : 0.0f;
    return x < last ? x : last;
}

/* (1 - factor) * a + factor * b, for all coefficients of a row of the grid. */
static void blend(const float *restrict a, const float *restrict b, float factor, int64_t count, float *restrict out) {
    for (int64_t k = 0; k < count; k++) out[k] = a[k] + factor * (b[k] - a[k]);
}

/* The coefficients of one pixel, from rows at its height. */
INLINE void slice(const struct field *f, const float *rows, const float *temporal, int64_t x, float red, float green,
                  float *out) {
    float at_x = hold((x + 0.5f) * f->grid_width / f->width - 0.5f, f->grid_width - 1.0f), last = f->bins - 1.0f;
    float at_r = hold(red * f->bins - 0.5f, last), at_g = hold(green * f->bins - 0.5f, last);
    int64_t x0 = (int64_t)at_x, r0 = (int64_t)at_r, g0 = (int64_t)at_g;
    float fx = at_x - x0, fr = at_r - r0, fg = at_g - g0, ex = 1.0f - fx;
    int64_t right = x0 + 1 < f->grid_width ? 2 * SIZE : 0, bin = f->grid_width * 2 * SIZE;
    const float *r = rows + r0 * bin + x0 * 2 * SIZE, *g = rows + g0 * bin + x0 * 2 * SIZE + SIZE;
    const float *next_r = r0 + 1 < f->bins ? r + bin : r, *next_g = g0 + 1 < f->bins ? g + bin : g;
    const float *t = temporal + x0 * SIZE, *next_t = t + right / 2;
    for (int c = 0; c < SIZE; c += LANES) {
        vector total = ex * load(t, c, 0) + fx * load(next_t, c, 0);
        total += (1.0f - fr) * (ex * load(r, c, 0) + fx * load(r, right + c, 0));
        total += fr * (ex * load(next_r, c, 0) + fx * load(next_r, right + c, 0));
        total += (1.0f - fg) * (ex * load(g, c, 0) + fx * load(g, right + c, 0));
        total += fg * (ex * load(next_g, c, 0) + fx * load(next_g, right + c, 0));
        store(total, out, c, 0);
    }
}

/* A = 2 N^-1 - I with N = I - M/2, by cofactors; A x + b, within [0, 1]. */
INLINE void apply(const float m[COEFFICIENTS], float red, float green, float blue, float singular, float out[3]) {
    float a = 1.0f - 0.5f * m[0], b = -0.5f * m[1], c = -0.5f * m[2];
    float d = -0.5f * m[3], e = 1.0f - 0.5f * m[4], f = -0.5f * m[5];
    float g = -0.5f * m[6], h = -0.5f * m[7], i = 1.0f - 0.5f * m[8];
    float ca = e * i - f * h, cb = f * g - d * i, cc = d * h - e * g, det = a * ca + b * cb + c * cc;
    int usable = fabsf(det) >= singular;
    float s = 2.0f / (usable ? det : 1.0f);
    float j0 = s * (ca * red + (c * h - b * i) * green + (b * f - c * e) * blue) - red;
    float j1 = s * (cb * red + (a * i - c * g) * green + (c * d - a * f) * blue) - green;
    float j2 = s * (cc * red + (b * g - a * h) * green + (a * e - b * d) * blue) - blue;
    out[0] = hold((usable ? j0 : red) + m[9], 1.0f);
    out[1] = hold((usable ? j1 : green) + m[10], 1.0f);
    out[2] = hold((usable ? j2 : blue) + m[11], 1.0f);
}

static void field_row(const void *argument, int64_t y) {
    const struct field *f = argument;
    int64_t row = f->grid_width * 2 * SIZE, area = f->height * f->width;
    float *rows = libranet_scratch((f->bins * row + row / 2) * sizeof(float)), *temporal = rows + f->bins * row;
    float at = hold((y + 0.5f) * f->grid_height / f->height - 0.5f, f->grid_height - 1.0f);
    int64_t above = (int64_t)at, below = above + 1 < f->grid_height ? above + 1 : above;
    for (int64_t bin = 0; bin < f->bins; bin++)
        blend(f->grid + (bin * f->grid_height + above) * row, f->grid + (bin * f->grid_height + below) * row,
              at - above, row, rows + bin * row);
    blend(f->plane + above * row / 2, f->plane + below * row / 2, at - above, row / 2, temporal);
    for (int64_t begin = 0; begin < f->width; begin += PIXELS) {
        int64_t count = f->width - begin < PIXELS ? f->width - begin : PIXELS;
        const float *low = f->low + y * f->width + begin;
        float found[SIZE], m[COEFFICIENTS][PIXELS], colour[3][PIXELS], result[3][PIXELS];
        for (int64_t x = 0; x < count; x++) {
            slice(f, rows, temporal, begin + x, low[x], low[area + x], found);
            for (int c = 0; c < COEFFICIENTS; c++) m[c][x] = found[c];
            for (int c = 0; c < 3; c++) colour[c][x] = low[c * area + x];
        }
        for (int64_t x = count; x < PIXELS; x++) {
            for (int c = 0; c < COEFFICIENTS; c++) m[c][x] = 0.0f;
            for (int c = 0; c < 3; c++) colour[c][x] = 0.0f;
        }
        for (int x = 0; x < PIXELS; x++) {
            float mine[COEFFICIENTS], out[3];
            UNROLL for (int c = 0; c < COEFFICIENTS; c++) mine[c] = m[c][x];
            apply(mine, colour[0][x], colour[1][x], colour[2][x], f->singular, out);
            UNROLL for (int c = 0; c < 3; c++) result[c][x] = out[c];
        }
        for (int c = 0; c < 3; c++)
            for (int64_t x = 0; x < count; x++) {
                f->small[c * area + y * f->width + begin + x] = result[c][x];
                f->delta[c * area + y * f->width + begin + x] = result[c][x] - colour[c][x];
            }
    }
}

EXPORT(apply_field)(int64_t threads, const float *low, const float *grid, const float *plane, float *small,
                    float *delta, int64_t height, int64_t width, int64_t bins, int64_t grid_height, int64_t grid_width,
                    float singular) {
    struct field f = {low, grid, plane, small, delta, height, width, bins, grid_height, grid_width, singular};
    libranet_run_parts(threads, height, field_row, &f);
}
