/*
 * tests/trace/pickle_make.h - writes JSON values as Python pickles of protocol 2 to 5, with the
 * opcodes that CPython and PyTorch use. Equal texts are written once and then taken from the memo.
 */
#ifndef MRD_TESTS_TRACE_PICKLE_MAKE_H
#define MRD_TESTS_TRACE_PICKLE_MAKE_H

#include "base/conf/json.h"
#include "tests/check.h"

typedef struct {
    mrd_buf *to;
    unsigned protocol;
    mrd_strlist memo;
    bool tuples; /* lists of two texts are written as tuples */
} pickle_maker;

static inline void
pickle_le(mrd_buf *to, uint64_t v, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        mrd_buf_byte(to, (uint8_t) (v >> (8 * i)));
}

static inline void
pickle_text(pickle_maker *m, const char *text)
{
    size_t at = 0;

    while (at < m->memo.n && strcmp(m->memo.v[at], text) != 0)
        at++;
    if (at < m->memo.n) {
        mrd_buf_byte(m->to, at < 256 ? 'h' : 'j');
        pickle_le(m->to, at, at < 256 ? 1 : 4);
        return;
    }
    if (m->protocol >= 4 && strlen(text) < 256) {
        mrd_buf_byte(m->to, 0x8c);
        pickle_le(m->to, strlen(text), 1);
    } else {
        mrd_buf_byte(m->to, 'X');
        pickle_le(m->to, strlen(text), 4);
    }
    mrd_buf_text(m->to, text);
    if (m->protocol >= 4) {
        mrd_buf_byte(m->to, 0x94);
    } else {
        mrd_buf_byte(m->to, at < 256 ? 'q' : 'r');
        pickle_le(m->to, at, at < 256 ? 1 : 4);
    }
    REQUIRE(mrd_strlist_add(&m->memo, mrd_str_of(text)) == MRD_OK);
}

static inline void
pickle_int(mrd_buf *to, int64_t v)
{
    if (v >= 0 && v < 256) {
        mrd_buf_byte(to, 'K');
        pickle_le(to, (uint64_t) v, 1);
    } else if (v >= 0 && v < 65536) {
        mrd_buf_byte(to, 'M');
        pickle_le(to, (uint64_t) v, 2);
    } else if (v >= INT32_MIN && v <= INT32_MAX) {
        mrd_buf_byte(to, 'J');
        pickle_le(to, (uint64_t) v, 4);
    } else {
        mrd_buf_byte(to, 0x8a);
        mrd_buf_byte(to, 8);
        pickle_le(to, (uint64_t) v, 8);
    }
}

static inline void
pickle_value(pickle_maker *m, mrd_json *json)
{
    double real;
    uint64_t bits;

    switch (mrd_json_type_of(json)) {
    case MRD_JSON_NULL:
        mrd_buf_byte(m->to, 'N');
        return;
    case MRD_JSON_BOOL: {
        char scratch[64];
        mrd_str text;

        REQUIRE(mrd_json_text(json, scratch, &text) == MRD_OK);
        mrd_buf_byte(m->to, text.p[0] == '1' || text.p[0] == 't' ? 0x88 : 0x89);
        return;
    }
    case MRD_JSON_INT:
        pickle_int(m->to, mrd_json_int_of(json));
        return;
    case MRD_JSON_REAL: {
        char scratch[64];
        mrd_str text;

        REQUIRE(mrd_json_text(json, scratch, &text) == MRD_OK);
        real = strtod(text.p, NULL);
        memcpy(&bits, &real, sizeof(bits));
        mrd_buf_byte(m->to, 'G');
        pickle_le(m->to, __builtin_bswap64(bits), 8);
        return;
    }
    case MRD_JSON_TEXT: {
        char scratch[64];
        mrd_str text;

        REQUIRE(mrd_json_text(json, scratch, &text) == MRD_OK);
        pickle_text(m, text.p);
        return;
    }
    case MRD_JSON_ARRAY:
        if (m->tuples && mrd_json_size(json) == 2 &&
            mrd_json_type_of(mrd_json_at(json, 0)) == MRD_JSON_TEXT) {
            pickle_value(m, mrd_json_at(json, 0));
            pickle_value(m, mrd_json_at(json, 1));
            mrd_buf_byte(m->to, 0x86);
            return;
        }
        mrd_buf_text(m->to, mrd_json_size(json) == 1 ? "]" : "](");
        for (size_t i = 0; i < mrd_json_size(json); i++)
            pickle_value(m, mrd_json_at(json, i));
        mrd_buf_byte(m->to, mrd_json_size(json) == 1 ? 'a' : 'e');
        return;
    case MRD_JSON_OBJECT:
        mrd_buf_text(m->to, "}(");
        for (void *it = mrd_json_iter(json); it != NULL; it = mrd_json_iter_next(json, it)) {
            pickle_text(m, mrd_json_iter_key(it));
            pickle_value(m, mrd_json_iter_value(it));
        }
        mrd_buf_byte(m->to, 'u');
        return;
    }
}

/* Appends the JSON document as a pickle. */
static inline void
pickle_make(const char *json, unsigned protocol, mrd_buf *to)
{
    mrd_buf body = { 0 };
    pickle_maker maker = { .to = &body, .protocol = protocol, .tuples = true };
    mrd_json *doc = NULL;

    CHECK_ERR("the test's JSON", mrd_json_parse(mrd_str_of(json), "dump", &doc, NULL), MRD_OK);
    pickle_value(&maker, doc);
    mrd_buf_byte(&body, '.');
    mrd_buf_byte(to, 0x80);
    mrd_buf_byte(to, (uint8_t) protocol);
    if (protocol >= 4) {
        mrd_buf_byte(to, 0x95);
        pickle_le(to, body.len, 8);
    }
    mrd_buf_add(to, body.p, body.len);
    mrd_buf_fini(&body);
    mrd_strlist_fini(&maker.memo);
    mrd_json_free(doc);
}

#endif
