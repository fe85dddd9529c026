/* Quieting the change of one plane: reference.py says what is computed. */
#include "../native/threads.h"
#include "../native/vectors.h"

#include <math.h>

enum { BLOCK = 4 };

struct plane {
    const void *before, *after;
    void *result;
    int64_t wide; /* whether samples have two bytes */
    int64_t height, width, rows, columns; /* of pixels and of blocks */
    float *usual, *change, *written; /* [height, width] */
    float *means, *changes, *moved, *texture; /* [rows, columns] */
    const float *share, *kept; /* [rows, columns]; nothing is kept of a first frame */
    float peak, hold_most; /* HOLD - 0.5 over KEPT */
};

static void read_row(const void *samples, int64_t wide, int64_t place, int64_t count, float *restrict out) {
    const uint8_t *bytes = (const uint8_t *)samples + place;
    const uint16_t *words = (const uint16_t *)samples + place;
    if (wide)
        for (int64_t x = 0; x < count; x++) out[x] = words[x];
    else
        for (int64_t x = 0; x < count; x++) out[x] = bytes[x];
}

static void write_row(void *samples, int64_t wide, int64_t place, int64_t count, const float *restrict values) {
    uint8_t *bytes = (uint8_t *)samples + place;
    uint16_t *words = (uint16_t *)samples + place;
    if (wide)
        for (int64_t x = 0; x < count; x++) words[x] = (uint16_t)(int32_t)values[x];
    else
        for (int64_t x = 0; x < count; x++) bytes[x] = (uint8_t)(int32_t)values[x];
}

/* Sums of columns become means of blocks. */
static void join_columns(const float *restrict sums, int64_t width, int64_t lines, float *restrict out) {
    int64_t whole = width / BLOCK, rest = width % BLOCK;
    float factor = 1.0f / (BLOCK * lines);
    for (int64_t b = 0; b < whole; b++)
        out[b] = factor * ((sums[4 * b] + sums[4 * b + 1]) + (sums[4 * b + 2] + sums[4 * b + 3]));
    if (rest) {
        float sum = 0.0f;
        for (int64_t x = whole * BLOCK; x < width; x++) sum += sums[x];
        out[whole] = sum / (rest * lines);
    }
}

/* Where a pixel lies between two blocks: the first of them, and the share of the second. */
INLINE int64_t between(int64_t place, int64_t pixels, int64_t blocks, float *share) {
    float at = (place + 0.5f) * ((float)blocks / pixels) - 0.5f;
    at = at > 0.0f ? at : 0.0f;
    int64_t first = (int64_t)at;
    first = first < blocks - 1 ? first : blocks - 1;
    *share = first < blocks - 1 ? at - first : 0.0f;
    return first;
}

/* A map of blocks at a row of pixels. `room` holds a row of blocks and two more. */
static void enlarge_row(const struct plane *p, const float *blocks, int64_t y, float *restrict room,
                        float *restrict out) {
    float share;
    int64_t first = between(y, p->height, p->rows, &share), columns = p->columns;
    const float *a = blocks + first * columns, *b = share ? a + columns : a;
    float *row = room + 1;
    for (int64_t x = 0; x < columns; x++) row[x] = a[x] + share * (b[x] - a[x]);
    row[-1] = row[0], row[columns] = row[columns - 1];
    if (p->width != columns * BLOCK) {
        for (int64_t x = 0; x < p->width; x++) {
            int64_t at = between(x, p->width, columns, &share);
            out[x] = row[at] + share * (row[at + 1] - row[at]);
        }
        return;
    }
    for (int64_t x = 0; x < columns; x++) { /* between() for whole blocks, four pixels at once */
        float before = row[x] - row[x - 1], after = row[x + 1] - row[x];
        out[4 * x] = row[x] - 0.375f * before;
        out[4 * x + 1] = row[x] - 0.125f * before;
        out[4 * x + 2] = row[x] + 0.125f * after;
        out[4 * x + 3] = row[x] + 0.375f * after;
    }
}

static void mean_row(const void *argument, int64_t row) {
    const struct plane *p = argument;
    int64_t width = p->width, begin = row * BLOCK, lines = p->height - begin < BLOCK ? p->height - begin : BLOCK;
    float *sums = libranet_scratch(5 * width * sizeof(float)), *changes = sums + width, *moved = sums + 2 * width;
    float *before = sums + 3 * width, *after = sums + 4 * width;
    for (int64_t x = 0; x < 3 * width; x++) sums[x] = 0.0f;
    for (int64_t y = begin; y < begin + lines; y++) {
        read_row(p->before, p->wide, y * width, width, before);
        read_row(p->after, p->wide, y * width, width, after);
        for (int64_t x = 0; x < width; x++) {
            sums[x] += before[x];
            changes[x] += after[x] - before[x];
        }
        if (p->usual)
            for (int64_t x = 0; x < width; x++) moved[x] += fabsf(before[x] - p->usual[y * width + x]);
    }
    join_columns(sums, width, lines, p->means + row * p->columns);
    join_columns(changes, width, lines, p->changes + row * p->columns);
    join_columns(moved, width, lines, p->moved + row * p->columns);
}

static void texture_row(const void *argument, int64_t row) {
    const struct plane *p = argument;
    int64_t width = p->width, begin = row * BLOCK, lines = p->height - begin < BLOCK ? p->height - begin : BLOCK;
    float *sums = libranet_scratch((3 * width + p->columns + 2) * sizeof(float)), *before = sums + width;
    float *around = sums + 2 * width, *room = sums + 3 * width;
    for (int64_t x = 0; x < width; x++) sums[x] = 0.0f;
    for (int64_t y = begin; y < begin + lines; y++) {
        read_row(p->before, p->wide, y * width, width, before);
        enlarge_row(p, p->means, y, room, around);
        for (int64_t x = 0; x < width; x++) sums[x] += fabsf(before[x] - around[x]);
    }
    join_columns(sums, width, lines, p->texture + row * p->columns);
}

/* The nearest whole number, ties to even, of numbers below 2^22. A call of rintf would keep its loop from vectors. */
INLINE float nearest(float value) { return (value + 0x1.8p23f) - 0x1.8p23f; }

/* What is kept of the frames before goes into the memory; the change to write, to `result`. */
static void keep_row(int64_t width, float hold_most, const float *restrict before, const float *restrict own,
                     const float *restrict kept, float *restrict usual, float *restrict change,
                     const float *restrict written, float *restrict result) {
    for (int64_t x = 0; x < width; x++) {
        usual[x] = before[x] + kept[x] * (usual[x] - before[x]);
        float now = own[x] + kept[x] * (change[x] - own[x]), rounded = nearest(now);
        change[x] = now;
        result[x] = fabsf(now - written[x]) > 0.5f + kept[x] * hold_most ? rounded : written[x];
    }
}

static void write_rows(const void *argument, int64_t row) {
    const struct plane *p = argument;
    int64_t width = p->width, begin = row * BLOCK, end = begin + BLOCK < p->height ? begin + BLOCK : p->height;
    float *before = libranet_scratch((6 * width + p->columns + 2) * sizeof(float)), *own = before + width;
    float *smooth = before + 2 * width, *share = before + 3 * width, *kept = before + 4 * width;
    float *result = before + 5 * width, *room = before + 6 * width;
    for (int64_t y = begin; y < end; y++) {
        float *restrict usual = p->usual + y * width, *restrict change = p->change + y * width;
        float *restrict written = p->written + y * width;
        read_row(p->before, p->wide, y * width, width, before);
        read_row(p->after, p->wide, y * width, width, own);
        enlarge_row(p, p->changes, y, room, smooth);
        enlarge_row(p, p->share, y, room, share);
        for (int64_t x = 0; x < width; x++) {
            own[x] -= before[x];
            own[x] += share[x] * (smooth[x] - own[x]);
        }
        if (p->kept) {
            enlarge_row(p, p->kept, y, room, kept);
            keep_row(width, p->hold_most, before, own, kept, usual, change, written, result);
        } else {
            for (int64_t x = 0; x < width; x++) {
                usual[x] = before[x];
                change[x] = own[x];
                result[x] = nearest(own[x]);
            }
        }
        for (int64_t x = 0; x < width; x++) {
            written[x] = result[x];
            float value = before[x] + result[x];
            value = value > 0.0f ? value : 0.0f;
            result[x] = value < p->peak ? value : p->peak;
        }
        write_row(p->result, p->wide, y * width, width, result);
    }
}

/* Means over blocks of the plane, of its change, and of its distance from the usual one, where there is one. */
EXPORT(look_at_blocks)(int64_t threads, const void *before, const void *after, int64_t wide, float *usual,
                       float *means, float *changes, float *moved, float *texture, int64_t height, int64_t width,
                       int64_t rows, int64_t columns) {
    struct plane p = {.before = before, .after = after, .wide = wide, .usual = usual, .means = means,
                      .changes = changes, .moved = moved, .texture = texture, .height = height, .width = width,
                      .rows = rows, .columns = columns};
    libranet_run_parts(threads, rows, mean_row, &p);
    libranet_run_parts(threads, rows, texture_row, &p);
}

EXPORT(quiet_plane)(int64_t threads, const void *before, const void *after, void *result, int64_t wide, float *usual,
                    float *change, float *written, float *changes, const float *share, const float *kept,
                    int64_t height, int64_t width, int64_t rows, int64_t columns, float peak, float hold_most) {
    struct plane p = {.before = before, .after = after, .result = result, .wide = wide, .usual = usual,
                      .change = change, .written = written, .changes = changes, .share = share, .kept = kept,
                      .height = height, .width = width, .rows = rows, .columns = columns, .peak = peak,
                      .hold_most = hold_most};
    libranet_run_parts(threads, rows, write_rows, &p);
}
