/* 3x3 convolution by Winograd's F(4x4, 3x3), or by a product over the nine pixels of each result: see panels.py. */
#include "../native/multiply.h"
#include "../native/threads.h"

struct convolution {
    const void *x;
    int64_t x_row, x_pixel;
    const void *weight;
    const float *bias;
    int64_t inputs, padded;
    void *out;
    int64_t out_row, out_pixel, height, width, stride, tiles;
    float *sums;
};

/* The transforms of panels.py's `_transforms`. Two points that differ in their sign share all products. */
INLINE void transform_input(const vector x[6], vector out[6]) {
    out[0] = x[0] - 20.0f / 9 * x[2] + 64.0f / 81 * x[4];
    vector even = 32.0f / 27 * x[2] - 128.0f / 243 * x[4], odd = 8.0f / 9 * x[1] - 32.0f / 81 * x[3];
    out[1] = even + odd, out[2] = even - odd;
    even = 32.0f / 243 * x[4] - 2.0f / 27 * x[2], odd = 16.0f / 81 * x[3] - 1.0f / 9 * x[1];
    out[3] = even + odd, out[4] = even - odd;
    out[5] = x[5] + 81.0f / 64 * x[1] - 45.0f / 16 * x[3];
}

INLINE void transform_output(const vector x[6], vector out[4]) {
    vector near_sum = x[1] + x[2], near_difference = x[1] - x[2], far_sum = x[3] + x[4], far_difference = x[3] - x[4];
    out[0] = x[0] + near_sum + far_sum;
    out[1] = 0.75f * near_difference + 1.5f * far_difference;
    out[2] = 0.5625f * near_sum + 2.25f * far_sum;
    out[3] = x[5] + 0.421875f * near_difference + 3.375f * far_difference;
}

/* 6x6 pixels of a vector of channels become 36 slots. */
INLINE void spread(const struct convolution *c, int64_t place, void *slots, int64_t slot, int64_t step, int half) {
    vector lines[6][6], column[6], result[6];
    UNROLL for (int i = 0; i < 6; i++) {
        UNROLL for (int j = 0; j < 6; j++) column[j] = load(c->x, place + i * c->x_row + j * c->x_pixel, half);
        transform_input(column, lines[i]);
    }
    UNROLL for (int j = 0; j < 6; j++) {
        UNROLL for (int i = 0; i < 6; i++) column[i] = lines[i][j];
        transform_input(column, result);
        UNROLL for (int i = 0; i < 6; i++) store(result[i], slots, slot + (6 * i + j) * step, half);
    }
}

/* 36 slots become 4x4 pixels of a vector of channels. */
INLINE void gather(const float *slots, int64_t step, vector shift, vector result[4][4]) {
    vector lines[6][4], column[6];
    UNROLL for (int j = 0; j < 6; j++) {
        UNROLL for (int i = 0; i < 6; i++) column[i] = load(slots, (6 * i + j) * step, 0);
        transform_output(column, lines[j]);
    }
    UNROLL for (int i = 0; i < 4; i++) {
        UNROLL for (int j = 0; j < 6; j++) column[j] = lines[j][i];
        transform_output(column, result[i]);
        UNROLL for (int j = 0; j < 4; j++) result[i][j] += shift;
    }
}

/* The products of all tiles of a group at one of the 36 places, for one or more panels of results. */
INLINE void multiply_tiles(const struct convolution *c, const void *spread, const void *weight, float *products,
                           int64_t count, int panels, int half) {
    struct product p = {.a_step = c->inputs, .parts = 1, .b = weight, .b_step = c->inputs * PANEL, .depth = c->inputs,
                        .c_step = c->padded};
    int64_t whole = count / ROWS * ROWS;
    for (int64_t tile = 0; tile < whole; tile += ROWS) {
        p.a = at(spread, tile * c->inputs, half), p.c = products + tile * c->padded;
        multiply(p, ROWS, panels, half, 0, 0);
    }
    for (int64_t tile = whole; tile < count; tile += REST) {
        p.a = at(spread, tile * c->inputs, half), p.c = products + tile * c->padded;
        multiply(p, REST, panels, half, 0, 0);
    }
}

INLINE void convolve_group(const struct convolution *c, int64_t group, int half, int out_half) {
    int64_t columns = (c->width + 3) / 4, total = (c->height + 3) / 4 * columns;
    int64_t begin = group * c->tiles, count = total - begin < c->tiles ? total - begin : c->tiles;
    /* A little apart, so that slots do not share the same few places of the cache. */
    int64_t step = c->tiles * c->inputs + PANEL, to_step = c->tiles * c->padded + PANEL;
    float *products = libranet_scratch(36 * (to_step * sizeof(float) + step * (half ? 2 : 4)));
    void *slots = products + 36 * to_step;
    for (int64_t tile = 0; tile < count; tile++) {
        int64_t place = 4 * ((begin + tile) / columns) * c->x_row + 4 * ((begin + tile) % columns) * c->x_pixel;
        for (int64_t channel = 0; channel < c->inputs; channel += LANES)
            spread(c, place + channel, slots, tile * c->inputs + channel, step, half);
    }
    int64_t panels = c->padded / PANEL, paired = panels / PANELS * PANELS;
    for (int place = 0; place < 36; place++) {
        const void *mine = at(slots, place * step, half);
        const void *weight = at(c->weight, place * panels * PANEL * c->inputs, half);
        float *results = products + place * to_step;
        int64_t panel = 0;
        for (; panel < paired; panel += PANELS)
            multiply_tiles(c, mine, at(weight, panel * PANEL * c->inputs, half), results + panel * PANEL, count, PANELS,
                           half);
        for (; panel < panels; panel++)
            multiply_tiles(c, mine, at(weight, panel * PANEL * c->inputs, half), results + panel * PANEL, count, 1, half);
    }
    float *sums = c->sums + group * 2 * c->padded;
    for (int64_t channel = 0; channel < c->padded; channel += LANES) {
        vector shift = load(c->bias, channel, 0), total_sum = {0}, total_square = {0};
        for (int64_t tile = 0; tile < count; tile++) {
            int64_t y = 4 * ((begin + tile) / columns), x = 4 * ((begin + tile) % columns);
            int64_t place = (y + 1) * c->out_row + (x + 1) * c->out_pixel + channel;
            vector result[4][4];
            gather(products + tile * c->padded + channel, to_step, shift, result);
            if (y + 4 <= c->height && x + 4 <= c->width) {
                UNROLL for (int i = 0; i < 4; i++)
                    UNROLL for (int j = 0; j < 4; j++) {
                        store(result[i][j], c->out, place + i * c->out_row + j * c->out_pixel, out_half);
                        total_sum += result[i][j];
                        total_square += result[i][j] * result[i][j];
                    }
                continue;
            }
            for (int i = 0; i < 4 && y + i < c->height; i++)
                for (int j = 0; j < 4 && x + j < c->width; j++) {
                    store(result[i][j], c->out, place + i * c->out_row + j * c->out_pixel, out_half);
                    total_sum += result[i][j];
                    total_square += result[i][j] * result[i][j];
                }
        }
        store(total_sum, sums, channel, 0);
        store(total_square, sums, c->padded + channel, 0);
    }
}

INLINE void convolve_row(const struct convolution *c, int64_t y, int half, int out_half) {
    float *mine = libranet_scratch(ROWS * c->padded * sizeof(float)), *sums = c->sums + y * 2 * c->padded;
    /* Three pixels side by side are contiguous, three rows are not. */
    struct product p = {.a_step = c->stride * c->inputs, .a_part = c->x_row, .parts = 3, .depth = 3 * c->inputs,
                        .c_step = c->padded};
    for (int64_t x = 0; x < c->width; x += ROWS) {
        p.a = at(c->x, c->stride * (y * c->x_row + x * c->inputs), half);
        for (int64_t column = 0; column < c->padded; column += PANEL) {
            p.b = at(c->weight, column * 9 * c->inputs, half), p.c = mine + column, p.bias = c->bias + column;
            multiply(p, ROWS, 1, half, 0, 0);
        }
        for (int64_t k = 0; k < ROWS && x + k < c->width; k++)
            for (int64_t channel = 0; channel < c->padded; channel += LANES) {
                vector value = load(mine, k * c->padded + channel, 0);
                store(value, c->out, (y + 1) * c->out_row + (x + k + 1) * c->out_pixel + channel, out_half);
                store(load(sums, channel, 0) + value, sums, channel, 0);
                store(load(sums, c->padded + channel, 0) + value * value, sums, c->padded + channel, 0);
            }
    }
}

static void group_floats(const void *c, int64_t group) { convolve_group(c, group, 0, 0); }
static void row_floats(const void *c, int64_t row) { convolve_row(c, row, 0, 0); }
#if HAS_HALF
static void group_halves(const void *c, int64_t group) { convolve_group(c, group, 1, 1); }
static void group_halves_to_floats(const void *c, int64_t group) { convolve_group(c, group, 1, 0); }
static void row_halves(const void *c, int64_t row) { convolve_row(c, row, 1, 1); }
static void row_halves_to_floats(const void *c, int64_t row) { convolve_row(c, row, 1, 0); }
static void row_floats_to_halves(const void *c, int64_t row) { convolve_row(c, row, 0, 1); }
#endif

/* Zeros in `sums`: [parts, 2, padded]. */
EXPORT(convolve)(int64_t threads, const void *x, int64_t x_row, int64_t x_pixel, const void *weight, const float *bias,
                 int64_t inputs, int64_t padded, void *out, int64_t out_row, int64_t out_pixel, int64_t height,
                 int64_t width, float *sums, int64_t groups, int64_t tiles, int64_t half, int64_t out_half) {
    struct convolution c = {x, x_row, x_pixel, weight, bias, inputs, padded, out, out_row, out_pixel, height, width, 1,
                            tiles, sums};
    void (*work)(const void *, int64_t) = group_floats;
#if HAS_HALF
    if (half) work = out_half ? group_halves : group_halves_to_floats;
#endif
    libranet_run_parts(threads, groups, work, &c);
}

EXPORT(convolve_patches)(int64_t threads, const void *x, int64_t x_row, const void *weight, const float *bias,
                         int64_t inputs, int64_t padded, void *out, int64_t out_row, int64_t out_pixel, int64_t height,
                         int64_t width, int64_t stride, float *sums, int64_t half, int64_t out_half) {
    struct convolution c = {x, x_row, inputs, weight, bias, inputs, padded, out, out_row, out_pixel, height, width,
                            stride, 0, sums};
    void (*work)(const void *, int64_t) = row_floats;
#if HAS_HALF
    if (half) work = out_half ? row_halves : row_halves_to_floats;
    else if (out_half) work = row_floats_to_halves;
#endif
    libranet_run_parts(threads, height, work, &c);
}
