/* The refiner's passes between convolutions: GroupNorm as factor and summand, GELU, 1x1 mix, skip connection. */
#include "../native/multiply.h"
#include "../native/threads.h"

/* Pixels that are activated and then mixed, while they are in the cache. */
enum { BLOCK = 4 * ROWS };

struct pass {
    const void *raw;
    const float *folded; /* [2, channels]: factors, summands */
    const void *skip;
    const void *mix;
    const float *bias;
    void *out;
    int64_t out_channels, first, row, channels, width;
};

/* x * Phi(x), within 6e-5: (Phi(x) - 1/2) / x as a polynomial of x squared, fitted over [-4.3, 4.3]. */
INLINE vector gelu(vector x) {
    const vector end = spread_value(4.3f);
    vector held = -smaller(-smaller(x, end), end);
    vector square = held * held, total = spread_value(4.19741308e-11f);
    total = total * square - 4.24897279e-09f;
    total = total * square + 1.90223204e-07f;
    total = total * square - 5.00615574e-06f;
    total = total * square + 8.71175316e-05f;
    total = total * square - 0.00107138559f;
    total = total * square + 0.00969514597f;
    total = total * square - 0.0661555908f;
    total = total * square + 0.398802077f;
    return x * (held * total + 0.5f);
}

INLINE vector normal(const struct pass *p, int64_t place, int64_t channel, int half) {
    return load(p->raw, place, half) * load(p->folded, channel, 0) + load(p->folded, p->channels + channel, 0);
}

INLINE void normalise_row(const struct pass *p, int64_t y, int half) {
    for (int64_t x = 0; x < p->width; x++) {
        int64_t place = ((y + 1) * p->row + x + 1) * p->channels;
        for (int64_t c = 0; c < p->channels; c += LANES) {
            vector value = normal(p, place + c, c, half);
            value = p->skip ? value + load(p->skip, place + c, half) : gelu(value);
            store(value, p->out, place + c, half);
        }
    }
}

INLINE void mix_pixels(const struct pass *p, const void *active, int64_t from, int64_t to, int rows, int panels,
                       int half) {
    struct product q = {.a = active, .a_step = p->channels, .parts = 1, .b_step = PANEL * p->channels,
                        .depth = p->channels, .c_step = p->out_channels, .skip_step = p->channels};
    for (int64_t column = 0; column + panels * PANEL <= p->channels; column += panels * PANEL) {
        q.b = at(p->mix, column * p->channels, half), q.bias = p->bias + column;
        q.skip = at(p->skip, from + column, half), q.c = (void *)at(p->out, to + column, half);
        multiply(q, rows, panels, half, half, half);
    }
}

INLINE void mix_row(const struct pass *p, int64_t y, int half) {
    void *active = libranet_scratch(BLOCK * p->channels * (half ? 2 : 4));
    int even = p->channels % (PANELS * PANEL) == 0;
    for (int64_t begin = 0; begin < p->width; begin += BLOCK) {
        int64_t count = p->width - begin < BLOCK ? p->width - begin : BLOCK;
        int64_t place = ((y + 1) * p->row + begin + 1) * p->channels;
        int64_t to = ((y + 1) * p->row + begin + 1) * p->out_channels + p->first;
        for (int64_t x = 0; x < count; x++)
            for (int64_t c = 0; c < p->channels; c += LANES)
                store(gelu(normal(p, place + x * p->channels + c, c, half)), active, x * p->channels + c, half);
        int64_t x = 0;
        for (; x + ROWS <= count; x += ROWS) {
            const void *mine = at(active, x * p->channels, half);
            if (even) mix_pixels(p, mine, place + x * p->channels, to + x * p->out_channels, ROWS, PANELS, half);
            else mix_pixels(p, mine, place + x * p->channels, to + x * p->out_channels, ROWS, 1, half);
        }
        /* One by one what is left: a whole block would reach into other pixels. */
        for (; x < count; x++)
            mix_pixels(p, at(active, x * p->channels, half), place + x * p->channels, to + x * p->out_channels, 1, 1,
                       half);
    }
}

static void normalise_floats(const void *pass, int64_t y) { normalise_row(pass, y, 0); }
static void mix_floats(const void *pass, int64_t y) { mix_row(pass, y, 0); }
#if HAS_HALF
static void normalise_halves(const void *pass, int64_t y) { normalise_row(pass, y, 1); }
static void mix_halves(const void *pass, int64_t y) { mix_row(pass, y, 1); }
#endif

/* GELU(factor * raw + summand), or with a skip factor * raw + summand + skip. */
EXPORT(normalise)(int64_t threads, const void *raw, const float *folded, const void *skip, void *out, int64_t row,
                  int64_t channels, int64_t height, int64_t width, int64_t half) {
    struct pass p = {.raw = raw, .folded = folded, .skip = skip, .out = out, .row = row, .channels = channels,
                     .width = width};
    void (*work)(const void *, int64_t) = normalise_floats;
#if HAS_HALF
    if (half) work = normalise_halves;
#endif
    libranet_run_parts(threads, height, work, &p);
}

/* skip + mix(GELU(factor * raw + summand)) + bias, to the channels from `first` on. */
EXPORT(normalise_mix)(int64_t threads, const void *raw, const float *folded, const void *skip, const void *mix,
                      const float *bias, void *out, int64_t out_channels, int64_t first, int64_t row, int64_t channels,
                      int64_t height, int64_t width, int64_t half) {
    struct pass p = {raw, folded, skip, mix, bias, out, out_channels, first, row, channels, width};
    void (*work)(const void *, int64_t) = mix_floats;
#if HAS_HALF
    if (half) work = mix_halves;
#endif
    libranet_run_parts(threads, height, work, &p);
}
