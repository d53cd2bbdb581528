#include "base/num.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>

mrd_err
mrd_num_u64(mrd_str text, uint64_t *ret_v)
{
    uint64_t value = 0;
    size_t i = 0;

    if (text.len > 2 && text.p[0] == '0' && (text.p[1] == 'x' || text.p[1] == 'X')) {
        for (i = 2; i < text.len; i++) {
            char c = text.p[i];
            uint64_t digit;

            if (c >= '0' && c <= '9')
                digit = (uint64_t) (c - '0');
            else if ((c | 32) >= 'a' && (c | 32) <= 'f')
                digit = (uint64_t) ((c | 32) - 'a' + 10);
            else
                return MRD_SYNTAX;
            if (value >> 60 != 0)
                return MRD_RANGE;
            value = value << 4 | digit;
        }
        *ret_v = value;
        return MRD_OK;
    }
    if (text.len == 0)
        return MRD_SYNTAX;
    for (; i < text.len; i++) {
        unsigned digit = (unsigned char) text.p[i] - '0';

        if (digit > 9)
            return MRD_SYNTAX;
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, digit, &value))
            return MRD_RANGE;
    }
    *ret_v = value;
    return MRD_OK;
}

mrd_err
mrd_num_i64(mrd_str text, int64_t *ret_v)
{
    bool neg = text.len > 0 && text.p[0] == '-';
    uint64_t mag;
    mrd_err err;

    if (neg)
        text = (mrd_str){ text.p + 1, text.len - 1 };
    if (text.len > 1 && (text.p[1] == 'x' || text.p[1] == 'X'))
        return MRD_SYNTAX;
    if ((err = mrd_num_u64(text, &mag)) != MRD_OK)
        return err;
    if (mag > (uint64_t) INT64_MAX + (neg ? 1 : 0))
        return MRD_RANGE;
    *ret_v = neg ? (int64_t) (0 - mag) : (int64_t) mag;
    return MRD_OK;
}

/* The parts of a JSON number. `whole` and `frac` are the digits before and after the point, inside
 * of the number's text. */
typedef struct {
    bool neg;
    mrd_str whole, frac;
    int exp10;
} num_parts;

static size_t
num_digits(mrd_str text, size_t at)
{
    size_t start = at;

    while (at < text.len && text.p[at] >= '0' && text.p[at] <= '9')
        at++;
    return at - start;
}

static mrd_err
num_split(mrd_str text, num_parts *parts)
{
    size_t at = 0, count;

    *parts = (num_parts){ 0 };
    if (at < text.len && text.p[at] == '-') {
        parts->neg = true;
        at++;
    }
    if ((count = num_digits(text, at)) == 0)
        return MRD_SYNTAX;
    parts->whole = (mrd_str){ text.p + at, count };
    at += count;
    if (at < text.len && text.p[at] == '.') {
        if ((count = num_digits(text, ++at)) == 0)
            return MRD_SYNTAX;
        parts->frac = (mrd_str){ text.p + at, count };
        at += count;
    }
    if (at < text.len && (text.p[at] | 32) == 'e') {
        bool neg;

        at++;
        neg = at < text.len && text.p[at] == '-';
        if (at < text.len && (text.p[at] == '-' || text.p[at] == '+'))
            at++;
        if ((count = num_digits(text, at)) == 0)
            return MRD_SYNTAX;
        for (size_t i = 0; i < count && parts->exp10 < 100000; i++)
            parts->exp10 = parts->exp10 * 10 + (text.p[at + i] - '0');
        if (neg)
            parts->exp10 = -parts->exp10;
        at += count;
    }
    return at == text.len ? MRD_OK : MRD_SYNTAX;
}

mrd_err
mrd_num_scaled(mrd_str text, int exp10, int64_t *ret_v)
{
    num_parts parts;
    mrd_err err = num_split(text, &parts);
    uint64_t value = 0;
    size_t total, keep;
    long wanted;
    bool up = false;

    if (err != MRD_OK)
        return err;
    /* The value is 0.d1d2d3... x 10^wanted, so the first `wanted` digits are the integer part. */
    total = parts.whole.len + parts.frac.len;
    wanted = (long) parts.whole.len + parts.exp10 + exp10;
    keep = wanted <= 0 ? 0 : (size_t) wanted;
    for (size_t i = 0; i < keep; i++) {
        unsigned digit = 0;

        if (i < total)
            digit = (unsigned) ((i < parts.whole.len ? parts.whole.p[i]
                                                     : parts.frac.p[i - parts.whole.len]) -
                                '0');
        else if (value == 0)
            break; /* the number is 0, so the remaining digits do not matter */
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, digit, &value))
            return MRD_RANGE;
    }
    if (wanted >= 0 && keep < total) {
        char next =
            keep < parts.whole.len ? parts.whole.p[keep] : parts.frac.p[keep - parts.whole.len];

        up = next >= '5';
    }
    if (up && __builtin_add_overflow(value, 1u, &value))
        return MRD_RANGE;
    if (value > (uint64_t) INT64_MAX + (parts.neg ? 1 : 0))
        return MRD_RANGE;
    *ret_v = parts.neg ? (int64_t) (0 - value) : (int64_t) value;
    return MRD_OK;
}

mrd_err
mrd_num_double(mrd_str text, double *ret_v)
{
    char small[64], *copy = small, *end;
    num_parts parts;
    double v;
    mrd_err err = num_split(text, &parts);

    if (err != MRD_OK)
        return err;
    if (text.len >= sizeof(small) && (copy = malloc(text.len + 1)) == NULL)
        return MRD_NOMEM;
    memcpy(copy, text.p, text.len);
    copy[text.len] = '\0';
    /* in the C locale, because in other locales the decimal separator may be a comma */
    v = strtod_l(copy, &end, newlocale(LC_ALL_MASK, "C", NULL));
    if (copy != small)
        free(copy);
    if (!isfinite(v))
        return MRD_RANGE;
    *ret_v = v;
    return MRD_OK;
}

typedef struct {
    const char *suffix;
    int64_t factor;
} num_unit;

/* Parses a number with a unit. An integer is converted exactly, a fraction is rounded. */
static mrd_err
num_with_unit(mrd_str text, const num_unit *units, size_t n_units, int64_t *ret_v)
{
    size_t digits = 0;
    int64_t factor = 0, whole, product;
    double frac;
    mrd_str number, unit;

    while (digits < text.len && ((text.p[digits] >= '0' && text.p[digits] <= '9') ||
                                 text.p[digits] == '.' || (digits == 0 && text.p[digits] == '-')))
        digits++;
    number = (mrd_str){ text.p, digits };
    unit = (mrd_str){ text.p + digits, text.len - digits };
    for (size_t i = 0; i < n_units && factor == 0; i++) {
        if (mrd_str_is(unit, units[i].suffix))
            factor = units[i].factor;
    }
    if (digits == 0 || factor == 0)
        return MRD_SYNTAX;
    if (mrd_num_i64(number, &whole) == MRD_OK) {
        if (__builtin_mul_overflow(whole, factor, &product))
            return MRD_RANGE;
        *ret_v = product;
        return MRD_OK;
    }
    if (mrd_num_double(number, &frac) != MRD_OK)
        return MRD_SYNTAX;
    frac *= (double) factor;
    if (frac >= 9.2e18 || frac <= -9.2e18)
        return MRD_RANGE;
    /* round() is not used, because libmeridian does not link libm */
    *ret_v = (int64_t) (frac < 0 ? frac - 0.5 : frac + 0.5);
    return MRD_OK;
}

mrd_err
mrd_num_size(mrd_str text, int64_t *ret_bytes)
{
#define NUM_SIZE(letter, lower, shift)                                                             \
    { letter, 1LL << shift }, { lower, 1LL << shift }, { letter "B", 1LL << shift },               \
    {                                                                                              \
        letter "iB", 1LL << shift                                                                  \
    }
    static const num_unit units[] = { { "", 1 },
                                      { "B", 1 },
                                      NUM_SIZE("K", "k", 10),
                                      NUM_SIZE("M", "m", 20),
                                      NUM_SIZE("G", "g", 30),
                                      NUM_SIZE("T", "t", 40) };

    return num_with_unit(text, units, sizeof(units) / sizeof(units[0]), ret_bytes);
}

mrd_err
mrd_num_dur(mrd_str text, mrd_dur_ns *ret_dur)
{
    static const num_unit units[] = {
        { "", MRD_SEC },
        { "s", MRD_SEC },
        { "ms", MRD_MS },
        { "us", MRD_US },
        { "ns", 1 },
        { "min", 60 * MRD_SEC },
        { "m", 60 * MRD_SEC },
        { "h", 3600 * MRD_SEC },
        { "d", 86400 * MRD_SEC },
    };

    return num_with_unit(text, units, sizeof(units) / sizeof(units[0]), ret_dur);
}
