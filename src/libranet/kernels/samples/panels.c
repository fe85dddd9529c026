/* Frames in their own samples: a band of rows is read into cells and reductions, or gets its change. See panels.py.
 *
 * Rows become floats as they are read, so only the first and the last loops know how samples are stored.
 */
#include <string.h>

#include "../native/threads.h"
#include "../native/vectors.h"

/* Models are those of samples/reference.py, and interleaved RGB. BAND: rows of a frame that one thread works on. */
enum { RGB, YUV, GRAY, PACKED };
enum { BYTES, WORDS, FLOATS };
enum { CELL = 4, CHANNELS = 3 * CELL * CELL, BAND = 64 };

/* A row of a cell. */
typedef float four __attribute__((vector_size(4 * CELL), aligned(4), may_alias));

/* `_Samples` in panels.py. */
struct samples {
    const float *numbers; /* [22]: codes to RGB (3x3), its summand (3), RGB to codes (3x3), the largest code */
    int64_t model, kind, height, width, whole_height, whole_width, chroma_height, chroma_width;
    int64_t x_step;
    const float *x_weights; /* [x_step, 3]: of the chroma sample before, here and behind */
    const int64_t *pairs;   /* [height, 2]: the chroma rows around a row */
    const float *between;   /* [height]: the weight of the second one */
    int64_t x_offset, x_count;
    const float *x_means; /* [x_count]: what samples from x_step * chroma + x_offset on count for a chroma sample */
    int64_t y_step, y_offset, y_count;
    const float *y_means;
};

/* `_Reduction` in panels.py: an antialiased reduction, by its rows and columns. */
struct reduction {
    const int64_t *first; /* [whole_height]: the first result that a row counts for */
    const float *pair;    /* [whole_height, 2]: its weight there and in the next one */
    const int64_t *start; /* [columns]: the first sample that counts for a result */
    const float *taps;    /* [columns, count]: the weights from there on */
    int64_t columns, count, rows, most;
    float *parts; /* [bands, most, 3, columns]: neighbouring bands contribute to the same results */
};

struct frame {
    const struct samples *s;
    const void *planes[3];
    /* reading */
    void *cells;
    int64_t cells_row, half;
    const struct reduction *reductions[2]; /* the second one may be NULL */
    /* finishing */
    void *out[3];
    const float *delta, *residual;
    int64_t residual_row;
    float strength;
};

INLINE float unit(float x) {
    x = x > 0.0f ? x : 0.0f;
    return x < 1.0f ? x : 1.0f;
}

INLINE float sample(const void *plane, int64_t place, int kind) {
    if (kind == BYTES) return ((const uint8_t *)plane)[place];
    if (kind == WORDS) return ((const uint16_t *)plane)[place];
    return ((const float *)plane)[place];
}

/* The sample plus a difference, rounded where samples are integers. */
INLINE void change_sample(const void *plane, void *out, int64_t place, float difference, float peak, int kind) {
    float value = sample(plane, place, kind) + difference;
    value = value > 0.0f ? value : 0.0f;
    value = value < peak ? value : peak;
    if (kind == FLOATS) ((float *)out)[place] = value;
    /* To the nearest, ties to even: floats from 2^23 on have no fractions. */
    else if (kind == BYTES) ((uint8_t *)out)[place] = (uint8_t)(int32_t)((value + 0x1p23f) - 0x1p23f);
    else ((uint16_t *)out)[place] = (uint16_t)(int32_t)((value + 0x1p23f) - 0x1p23f);
}

INLINE void load_row_kind(const void *plane, int64_t begin, int64_t count, float *restrict out, int kind) {
    for (int64_t x = 0; x < count; x++) out[x] = sample(plane, begin + x, kind);
}

INLINE void load_packed_kind(const void *plane, int64_t begin, int64_t count, float factor, float *restrict red,
                             float *restrict green, float *restrict blue, int kind) {
    for (int64_t x = 0; x < count; x++) {
        red[x] = unit(factor * sample(plane, begin + 3 * x, kind));
        green[x] = unit(factor * sample(plane, begin + 3 * x + 1, kind));
        blue[x] = unit(factor * sample(plane, begin + 3 * x + 2, kind));
    }
}

INLINE void write_row_kind(const void *restrict plane, void *restrict out, int64_t begin, int64_t count,
                           const float *restrict difference, float peak, int kind) {
    for (int64_t x = 0; x < count; x++) change_sample(plane, out, begin + x, difference[x], peak, kind);
}

INLINE void write_packed_kind(const void *restrict plane, void *restrict out, int64_t begin, int64_t count,
                              const float *restrict red, const float *restrict green, const float *restrict blue,
                              float peak, int kind) {
    for (int64_t x = 0; x < count; x++) {
        change_sample(plane, out, begin + 3 * x, peak * red[x], peak, kind);
        change_sample(plane, out, begin + 3 * x + 1, peak * green[x], peak, kind);
        change_sample(plane, out, begin + 3 * x + 2, peak * blue[x], peak, kind);
    }
}

#define FOR_KIND(kind, call) \
    do { \
        if ((kind) == BYTES) call(BYTES); \
        else if ((kind) == WORDS) call(WORDS); \
        else call(FLOATS); \
    } while (0)

static void load_row(const struct samples *s, const void *plane, int64_t begin, int64_t count, float *out) {
#define LOAD(kind) load_row_kind(plane, begin, count, out, kind)
    FOR_KIND(s->kind, LOAD);
}

static void write_row(const struct samples *s, const void *plane, void *out, int64_t begin, int64_t count,
                      const float *difference) {
#define WRITE(kind) write_row_kind(plane, out, begin, count, difference, s->numbers[21], kind)
    FOR_KIND(s->kind, WRITE);
}

/* Chroma samples [1 .. count] of a row at every luma sample; their ends are repeated in 0 and count + 1. */
static void widen(const struct samples *s, float *restrict row, float *restrict out) {
    int64_t count = s->chroma_width, step = s->x_step;
    const float *w = s->x_weights;
    row[0] = row[1], row[count + 1] = row[count];
    if (step == 2) {
        for (int64_t i = 0; i < count; i++) {
            out[2 * i] = w[0] * row[i] + w[1] * row[i + 1] + w[2] * row[i + 2];
            out[2 * i + 1] = w[3] * row[i] + w[4] * row[i + 1] + w[5] * row[i + 2];
        }
        return;
    }
    for (int64_t k = 0; k < step; k++, w += 3)
        for (int64_t i = 0; i < count; i++)
            out[step * i + k] = w[0] * row[i] + w[1] * row[i + 1] + w[2] * row[i + 2];
}

/* Buffers of a thread, each for a row: see `row_floats`. */
struct rows {
    float *rgb[3], *given, *chroma, *below, *wide[2], *more;
};

static int64_t row_floats(const struct samples *s) { return s->whole_width + 4 * PANEL; }

static struct rows make_rows(const struct samples *s, int64_t more) {
    int64_t step = row_floats(s);
    float *memory = libranet_scratch((8 * step + more) * sizeof(float));
    struct rows rows = {{memory, memory + step, memory + 2 * step}, memory + 3 * step, memory + 4 * step,
                        memory + 5 * step, {memory + 6 * step, memory + 7 * step}, memory + 8 * step};
    return rows;
}

static void mix_codes(const float *n, int64_t count, const float *restrict y, const float *restrict cb,
                      const float *restrict cr, float *restrict out, int colour) {
    float a = n[3 * colour], b = n[3 * colour + 1], c = n[3 * colour + 2], d = n[9 + colour];
    for (int64_t x = 0; x < count; x++) out[x] = unit(a * y[x] + b * cb[x] + c * cr[x] + d);
}

/* A row in RGB, within [0, 1]. */
static void rgb_row(const struct frame *f, int64_t y, struct rows *r) {
    const struct samples *s = f->s;
    const float *n = s->numbers;
    int64_t w = s->width;
    if (s->model == PACKED) {
#define LOAD_PACKED(kind) load_packed_kind(f->planes[0], 3 * w * y, w, n[0], r->rgb[0], r->rgb[1], r->rgb[2], kind)
        FOR_KIND(s->kind, LOAD_PACKED);
        return;
    }
    load_row(s, f->planes[0], w * y, w, r->given);
    if (s->model == YUV) {
        for (int plane = 0; plane < 2; plane++) {
            int64_t count = s->chroma_width;
            const float factor = s->between[y];
            load_row(s, f->planes[1 + plane], count * s->pairs[2 * y], count, r->chroma + 1);
            if (factor != 0.0f) {
                float *restrict above = r->chroma + 1, *restrict below = r->below;
                load_row(s, f->planes[1 + plane], count * s->pairs[2 * y + 1], count, below);
                for (int64_t x = 0; x < count; x++) above[x] += factor * (below[x] - above[x]);
            }
            widen(s, r->chroma, r->wide[plane]);
        }
        for (int colour = 0; colour < 3; colour++)
            mix_codes(n, w, r->given, r->wide[0], r->wide[1], r->rgb[colour], colour);
        return;
    }
    for (int colour = 0; colour < 3; colour++) {
        float *restrict out = r->rgb[colour];
        const float *restrict given = r->given;
        float factor = n[s->model == RGB ? 4 * colour : 0], summand = n[9];
        if (s->model == RGB && colour) load_row(s, f->planes[colour], w * y, w, r->given);
        for (int64_t x = 0; x < w; x++) out[x] = unit(factor * given[x] + summand);
    }
}

static void add_row(const float *restrict row, int64_t count, float a, float b, float *restrict now,
                    float *restrict following) {
    for (int64_t x = 0; x < count; x++) {
        now[x] += a * row[x];
        following[x] += b * row[x];
    }
}

static void reduce_row(const struct reduction *r, const float *restrict line, float *restrict out) {
    const float *taps = r->taps;
    for (int64_t x = 0; x < r->columns; x++, taps += r->count) {
        const float *from = line + r->start[x];
        float total = 0.0f;
        for (int64_t k = 0; k < r->count; k++) total += taps[k] * from[k];
        out[x] = total;
    }
}

/* Add a row to the sums of the two results that it counts for, `result` and the next; write those that are complete.
 * Returns the result that comes next. */
static int64_t reduce(const struct samples *s, const struct reduction *r, const struct rows *rows, float *sums,
                      int64_t y, int64_t begin, int64_t end, int64_t result, float *parts) {
    int64_t step = row_floats(s);
    for (int colour = 0; colour < 3; colour++)
        add_row(rows->rgb[colour], s->whole_width, r->pair[2 * y], r->pair[2 * y + 1], sums + colour * step,
                sums + (3 + colour) * step);
    int ready = y + 1 == end ? 2 : r->first[y + 1] != result;
    for (int k = 0; k < ready; k++)
        for (int colour = 0; colour < 3; colour++)
            reduce_row(r, sums + (3 * k + colour) * step,
                       parts + ((result + k - r->first[begin]) * 3 + colour) * r->columns);
    if (ready == 1) {
        memcpy(sums, sums + 3 * step, 3 * step * sizeof(float));
        memset(sums + 3 * step, 0, 3 * step * sizeof(float));
    }
    return result + ready;
}

/* A row of cells: four pixels of each colour side by side. */
INLINE void write_cells(const struct frame *f, const struct rows *rows, int64_t y, int half) {
    int64_t place = (y / CELL + 1) * f->cells_row + CHANNELS + 3 * CELL * (y % CELL), count = f->s->whole_width / CELL;
    const float *const rgb[3] = {rows->rgb[0], rows->rgb[1], rows->rgb[2]};
    void *cells = f->cells;
    for (int64_t x = 0; x < count; x++, place += CHANNELS)
        UNROLL for (int colour = 0; colour < 3; colour++) {
            const float *four = rgb[colour] + CELL * x;
#if HAS_HALF
            if (half) {
                __m128i halves = (__m128i)_mm_cvtneps_pbh(_mm_loadu_ps(four));
                memcpy((uint16_t *)cells + place + CELL * colour, &halves, 2 * CELL);
                continue;
            }
#endif
            memcpy((float *)cells + place + CELL * colour, four, 4 * CELL);
        }
}

static void read_band(const void *frame, int64_t band) {
    const struct frame *f = frame;
    const struct samples *s = f->s;
    int64_t step = row_floats(s), begin = band * BAND, end = begin + BAND, at[2];
    struct rows rows = make_rows(s, 12 * step);
    if (end > s->whole_height) end = s->whole_height;
    memset(rows.more, 0, 12 * step * sizeof(float));
    int count = f->reductions[1] ? 2 : 1;
    for (int k = 0; k < count; k++) at[k] = f->reductions[k]->first[begin];
    for (int64_t y = begin; y < end; y++) {
        /* Frames are continued by reflection to whole cells. */
        rgb_row(f, y < s->height ? y : 2 * s->height - 2 - y, &rows);
        for (int colour = 0; colour < 3; colour++)
            for (int64_t x = s->width; x < s->whole_width; x++)
                rows.rgb[colour][x] = rows.rgb[colour][2 * s->width - 2 - x];
        for (int k = 0; k < count; k++) {
            const struct reduction *r = f->reductions[k];
            at[k] = reduce(s, r, &rows, rows.more + 6 * k * step, y, begin, end, at[k],
                           r->parts + band * r->most * 3 * r->columns);
        }
        if (f->half) write_cells(f, &rows, y, 1);
        else write_cells(f, &rows, y, 0);
    }
}

/* What the bands left of a reduction, within [0, 1]. */
static void combine(const struct samples *s, const struct reduction *r, float *restrict out) {
    memset(out, 0, 3 * r->rows * r->columns * sizeof(float));
    for (int64_t band = 0; band * BAND < s->whole_height; band++)
        for (int64_t k = 0, row = r->first[band * BAND]; k < r->most && row < r->rows; k++, row++)
            for (int colour = 0; colour < 3; colour++) {
                const float *restrict from = r->parts + ((band * r->most + k) * 3 + colour) * r->columns;
                float *restrict to = out + (colour * r->rows + row) * r->columns;
                for (int64_t x = 0; x < r->columns; x++) to[x] += from[x];
            }
    for (int64_t k = 0; k < 3 * r->rows * r->columns; k++) out[k] = unit(out[k]);
}

EXPORT(read_samples)(int64_t threads, const struct samples *s, const void *first, const void *second, const void *third,
                     void *cells, int64_t cells_row, int64_t half, const struct reduction *low, float *low_out,
                     const struct reduction *small, float *small_out) {
    struct frame f = {.s = s, .planes = {first, second, third}, .cells = cells, .cells_row = cells_row, .half = half,
                      .reductions = {low, small}};
    libranet_run_parts(threads, (s->whole_height + BAND - 1) / BAND, read_band, &f);
    combine(s, low, low_out);
    if (small) combine(s, small, small_out);
}

/* What the network changes in a row, so that RGB stays in [0, 1]. The correction is enlarged between its pixels. */
static void change_row(const struct frame *f, int64_t y, const struct rows *rows, float *restrict blended,
                       float *change, int64_t change_step) {
    int64_t h = f->s->whole_height / CELL, w = f->s->whole_width / CELL;
    float at = (y + 0.5f) / CELL - 0.5f;
    at = at > 0.0f ? at : 0.0f;
    at = at < h - 1.0f ? at : h - 1.0f;
    int64_t above = (int64_t)at, below = above + 1 < h ? above + 1 : h - 1;
    const float factor = at - above, strength = f->strength;
    const four before_weights = {0.375f, 0.125f, 0.0f, 0.0f}, after_weights = {0.0f, 0.0f, 0.125f, 0.375f};
    for (int colour = 0; colour < 3; colour++) {
        const float *restrict upper = f->delta + (colour * h + above) * w;
        const float *restrict lower = f->delta + (colour * h + below) * w;
        for (int64_t x = 0; x < w; x++) blended[x + 1] = upper[x] + factor * (lower[x] - upper[x]);
        blended[0] = blended[1], blended[w + 1] = blended[w];
        const float *restrict given = rows->rgb[colour];
        const float *restrict line = f->residual + (y / CELL + 1) * f->residual_row + CHANNELS + 3 * CELL * (y % CELL) +
                                     CELL * colour;
        float *restrict out = change + colour * change_step;
        for (int64_t x = 0; x < w; x++) {
            float here = blended[x + 1];
            four pixels = *(const four *)(given + CELL * x);
            four changed = pixels + here + before_weights * (blended[x] - here) +
                           after_weights * (blended[x + 2] - here) + strength * *(const four *)(line + CHANNELS * x);
            *(four *)(out + CELL * x) = changed;
        }
        for (int64_t x = 0; x < f->s->whole_width; x++) out[x] = unit(out[x]) - given[x];
    }
}

/* A row's change in code values. */
static void mix_change(const float *n, int64_t count, const float *restrict red, const float *restrict green,
                       const float *restrict blue, float *restrict out, int row) {
    float a = n[12 + 3 * row], b = n[13 + 3 * row], c = n[14 + 3 * row];
    for (int64_t x = 0; x < count; x++) out[x] = a * red[x] + b * green[x] + c * blue[x];
}

/* Add a row's chroma to the chroma rows that it counts for; its ends are repeated, up to PANEL samples. */
static void average_row(const struct samples *s, float *row, int64_t line, int64_t top, int64_t rows,
                        float *restrict sums) {
    for (int64_t x = 1; x <= PANEL; x++) row[-x] = row[0], row[s->width - 1 + x] = row[s->width - 1];
    for (int64_t index = 0; index < rows; index++, sums += s->chroma_width) {
        int64_t tap = line - s->y_step * (top + index) - s->y_offset;
        if (tap < 0 || tap >= s->y_count) continue;
        for (int64_t k = 0; k < s->x_count; k++) {
            const float *restrict from = row + s->x_offset + k;
            float factor = s->y_means[tap] * s->x_means[k];
            if (s->x_step == 2)
                for (int64_t x = 0; x < s->chroma_width; x++) sums[x] += factor * from[2 * x];
            else
                for (int64_t x = 0; x < s->chroma_width; x++) sums[x] += factor * from[s->x_step * x];
        }
    }
}

static void finish_band(const void *frame, int64_t band) {
    const struct frame *f = frame;
    const struct samples *s = f->s;
    int64_t step = row_floats(s), begin = band * BAND, end = begin + BAND < s->height ? begin + BAND : s->height;
    int64_t top = begin / s->y_step, bottom = (begin + BAND) / s->y_step, lowest = begin, highest = end, count = 0;
    if (s->model == YUV) {
        if (bottom > s->chroma_height) bottom = s->chroma_height;
        count = bottom - top;
        int64_t before = s->y_step * top + s->y_offset, behind = s->y_step * (bottom - 1) + s->y_offset + s->y_count;
        lowest = before < begin ? before : begin;
        highest = behind > end ? behind : end;
    }
    struct rows rows = make_rows(s, 5 * step + 2 * count * s->chroma_width);
    float *change = rows.more, *blended = change + 3 * step, *mixed = blended + step + PANEL;
    float *sums = change + 5 * step;
    memset(sums, 0, 2 * count * s->chroma_width * sizeof(float));
    for (int64_t line = lowest; line < highest; line++) {
        int64_t y = line < 0 ? 0 : line < s->height ? line : s->height - 1;
        rgb_row(f, y, &rows);
        change_row(f, y, &rows, blended, change, step);
        if (s->model == PACKED) {
#define WRITE_PACKED(kind) \
    write_packed_kind(f->planes[0], f->out[0], 3 * s->width * y, s->width, change, change + step, change + 2 * step, \
                      s->numbers[21], kind)
            FOR_KIND(s->kind, WRITE_PACKED);
            continue;
        }
        for (int plane = 0; plane < (s->model == GRAY ? 1 : 3); plane++) {
            int chroma = s->model == YUV && plane;
            if (!chroma && (line < begin || line >= end)) continue;
            mix_change(s->numbers, s->width, change, change + step, change + 2 * step, mixed, plane);
            if (chroma) average_row(s, mixed, line, top, count, sums + (plane - 1) * count * s->chroma_width);
            else write_row(s, f->planes[plane], f->out[plane], s->width * y, s->width, mixed);
        }
    }
    for (int plane = 1; count && plane < 3; plane++)
        write_row(s, f->planes[plane], f->out[plane], top * s->chroma_width, count * s->chroma_width,
                  sums + (plane - 1) * count * s->chroma_width);
}

EXPORT(finish_samples)(int64_t threads, const struct samples *s, const void *first, const void *second,
                       const void *third, void *out_first, void *out_second, void *out_third, const float *delta,
                       const float *residual, int64_t residual_row, float strength) {
    struct frame f = {.s = s, .planes = {first, second, third}, .out = {out_first, out_second, out_third},
                      .delta = delta, .residual = residual, .residual_row = residual_row, .strength = strength};
    libranet_run_parts(threads, (s->height + BAND - 1) / BAND, finish_band, &f);
}

struct means {
    const float *residual;
    int64_t residual_row, height, width;
    float *out;
};

static void mean_row(const void *means, int64_t y) {
    const struct means *m = means;
    const float *line = m->residual + (y + 1) * m->residual_row + CHANNELS;
    for (int64_t x = 0; x < m->width; x++, line += CHANNELS)
        for (int colour = 0; colour < 3; colour++) {
            four total = {0};
            for (int row = 0; row < CELL; row++) total += *(const four *)(line + 3 * CELL * row + CELL * colour);
            m->out[(colour * m->height + y) * m->width + x] =
                (total[0] + total[1] + total[2] + total[3]) * (1.0f / (CELL * CELL));
        }
}

/* The mean of each cell's residual. */
EXPORT(cell_means)(int64_t threads, const float *residual, int64_t residual_row, int64_t height, int64_t width,
                   float *out) {
    struct means m = {residual, residual_row, height, width, out};
    libranet_run_parts(threads, height, mean_row, &m);
}
