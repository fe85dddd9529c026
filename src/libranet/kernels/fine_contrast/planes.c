/* The two passes of fine contrast over a plane of luma: reference.py says what is computed. */
#include "../native/threads.h"
#include "../native/vectors.h"

#include <math.h>

struct plane {
    const float *luma, *down, *up; /* [height, width] */
    float *mean, *square, *change; /* [rows, columns] twice, [height, width] */
    const float *gain, *around; /* [rows, columns] */
    int64_t height, width, side, rows, columns, step;
    float grain, tiny;
};

static void mean_row(const void *argument, int64_t row) {
    const struct plane *p = argument;
    int64_t width = p->width, side = p->side, begin = row * side;
    int64_t lines = p->height - begin < side ? p->height - begin : side;
    float *sums = libranet_scratch(2 * width * sizeof(float)), *squares = sums + width;
    for (int64_t x = 0; x < 2 * width; x++) sums[x] = 0.0f;
    for (int64_t y = begin; y < begin + lines; y++) {
        const float *restrict luma = p->luma + y * width;
        for (int64_t x = 0; x < width; x++) {
            sums[x] += luma[x];
            squares[x] += luma[x] * luma[x];
        }
    }
    for (int64_t c = 0; c < p->columns; c++) {
        int64_t end = (c + 1) * side < width ? (c + 1) * side : width;
        float sum = 0.0f, square = 0.0f, factor = 1.0f / (lines * (end - c * side));
        for (int64_t x = c * side; x < end; x++) {
            sum += sums[x];
            square += squares[x];
        }
        p->mean[row * p->columns + c] = factor * sum;
        p->square[row * p->columns + c] = factor * square;
    }
}

/* Where a pixel lies between two cells: the first of them, and the share of the second. */
INLINE int64_t between(int64_t place, int64_t side, int64_t cells, float *share) {
    float at = (place + 0.5f) / side - 0.5f;
    at = at > 0.0f ? at : 0.0f;
    int64_t first = (int64_t)at;
    *share = first < cells - 1 ? at - first : 0.0f;
    return first < cells - 1 ? first : cells - 1;
}

/* A map of cells at a row of pixels. `room` holds a row of cells, and one more on both sides. */
static void enlarge_row(const struct plane *p, const float *cells, int64_t y, float *restrict room,
                        float *restrict out) {
    float share, *restrict row = room + 1;
    int64_t first = between(y, p->side, p->rows, &share), columns = p->columns, side = p->side;
    const float *a = cells + first * columns, *b = share ? a + columns : a;
    for (int64_t c = 0; c < columns; c++) row[c] = a[c] + share * (b[c] - a[c]);
    row[-1] = row[0], row[columns] = row[columns - 1];
    for (int64_t c = 0; c < columns; c++) {
        int64_t begin = c * side, length = begin + side < p->width ? side : p->width - begin;
        float own = row[c], before = own - row[c - 1], after = row[c + 1] - own;
        for (int64_t i = 0; i < length; i++) {
            float at = (i + 0.5f) / side - 0.5f;
            out[begin + i] = own + at * (at < 0.0f ? before : after);
        }
    }
}

static void raise_row(const void *argument, int64_t y) {
    const struct plane *p = argument;
    int64_t width = p->width, step = p->step;
    int64_t above = y > step ? y - step : 0, below = y + step < p->height ? y + step : p->height - 1;
    /* Rows with `step` more pixels on both sides, which repeat the first and the last one. */
    float *room = libranet_scratch((4 * width + 2 * step + p->columns + 2) * sizeof(float)), *gain = room + width;
    float *row = gain + width, *wide = row + p->columns + 2, *luma = wide + step;
    float *out = p->change + y * width;
    const float *restrict a = p->luma + above * width, *restrict b = p->luma + below * width;
    const float *restrict own = p->luma + y * width, *restrict down = p->down + y * width;
    const float *restrict up = p->up + y * width;
    enlarge_row(p, p->around, y, row, room);
    enlarge_row(p, p->gain, y, row, gain);
    float most = 1.0f - 2.0f * p->grain;
    for (int64_t x = 0; x < width; x++) luma[x] = most * own[x] + p->grain * (a[x] + b[x]);
    for (int64_t x = 1; x <= step; x++) luma[-x] = luma[0], luma[width - 1 + x] = luma[width - 1];
    for (int64_t x = 0; x < width; x++) {
        float value = most * luma[x] + p->grain * (luma[x - step] + luma[x + step]);
        float change = (value - room[x]) * gain[x];
        float limit = change < 0.0f ? down[x] : up[x];
        out[x] = change * limit / (limit + fabsf(change) + p->tiny);
    }
}

EXPORT(contrast_cells)(int64_t threads, const float *luma, float *mean, float *square, int64_t height, int64_t width,
                   int64_t side, int64_t rows, int64_t columns) {
    struct plane p = {.luma = luma, .mean = mean, .square = square, .height = height, .width = width, .side = side,
                      .rows = rows, .columns = columns};
    libranet_run_parts(threads, rows, mean_row, &p);
}

EXPORT(raise_contrast)(int64_t threads, const float *luma, const float *down, const float *up, const float *gain,
                       const float *around, float *change, int64_t height, int64_t width, int64_t side, int64_t rows,
                       int64_t columns, int64_t step, float grain, float tiny) {
    struct plane p = {.luma = luma, .down = down, .up = up, .gain = gain, .around = around, .change = change,
                      .height = height, .width = width, .side = side, .rows = rows, .columns = columns, .step = step,
                      .grain = grain, .tiny = tiny};
    libranet_run_parts(threads, height, raise_row, &p);
}
