/* Tests the fast path for events of the runtime's trace (trace/import/nrt/nrt_layout.c). It must
 * give the same events, counts and errors as the JSON reader, for any text. */
#include "tests/check.h"
#include "tests/trace/events.h"
#include "tests/trace/nrt_ways.h"

/* Runs both paths on `text`, which is followed by MRD_IN_PAD zero bytes. Returns the number of
 * events on the fast path. */
static uint64_t
both(const char *name, mrd_str text, size_t chunk)
{
    uint64_t read = 0;

    CHECK_TEXT(name, ways_differ(text, chunk, &read) ? "the same both ways" : name);
    return read;
}

static mrd_str
padded(mrd_buf *b)
{
    size_t len = b->len;

    for (int i = 0; i < MRD_IN_PAD; i++)
        mrd_buf_byte(b, 0);
    CHECK_INT(b->err, MRD_OK);
    return (mrd_str){ (const char *) b->p, len };
}

/* Writes an event with the runtime's keys, in one of a few styles of white space, with `data` as
 * its data. */
static void
put_event(mrd_buf *b, int style, unsigned i, const char *more, const char *data)
{
    static const char *const colon[] = { ":", ": ", ":", " :\t" };
    static const char *const comma[] = { ",", ", ", ",\n      ", " ," };
    const char *c = colon[style], *k = comma[style];

    mrd_buf_fmt(b, "%s{%s\"event_type\"%s\"type_%u\"%s\"phase\"%s\"%s\"%s\"id\"%s%u%s",
                i == 0 ? "" : comma[style], style == 2 ? "\n      " : "", c, i / 2 % 7, k, c,
                i % 2 == 0 ? "start" : "stop", k, c, i, k);
    mrd_buf_fmt(b, "\"nc_idx\"%s%u%s\"nc_local_id\"%s%u%s\"tracking_id\"%s%u%s", c, i / 2 % 4, k, c,
                i / 4, k, c, i / 2 + 1000000, k);
    mrd_buf_fmt(b, "\"thread_id\"%s%llu%s%s\"worker_gid\"%s%d%s\"data\"%s{%s}%s", c,
                139872345600000ull + i / 2 % 5, k, more, c, (int) (i / 2 % 3) - 1, k, c, data, k);
    mrd_buf_fmt(b, "\"timestamp_ns\"%s%llu%s}", c, 1700000000000000000ull + i * 77ull,
                style == 2 ? "\n    " : "");
}

TEST(plain_events_go_the_fast_way)
{
    for (int style = 0; style < 4; style++) {
        mrd_buf b = { 0 };
        mrd_str text;

        mrd_buf_text(&b, "{\"data_version\":2,\"events\":[");
        for (unsigned i = 0; i < 600; i++)
            put_event(&b, style, i, "",
                      i % 2 == 0 ? "\"exec_id\":7,\"name\":\"a b\",\"on\":true,\"off\":false" : "");
        mrd_buf_text(&b, "]}");
        text = padded(&b);
        CHECK_INT(both("all at once", text, 0), 600);
        CHECK_INT(both("in one window", text, MRD_IN_WINDOW), 600);
        /* some are cut by the end of the window */
        CHECK(both("in small chunks", text, 1013) < 600);
        mrd_buf_fini(&b);
    }
}

/* Numbers of every length, with every digit at every position, have the same value as from the JSON
 * reader. */
TEST(numbers_of_every_length)
{
    uint64_t seed = 9;

    for (int digits = 1; digits <= 22; digits++) {
        mrd_buf b = { 0 };
        uint64_t read;

        mrd_buf_text(&b, "{\"data_version\":2,\"events\":[");
        for (unsigned i = 0; i < 200; i++) {
            char number[32];
            char data[80];

            for (int k = 0; k < digits; k++)
                number[k] = (char) ('0' + test_rand(&seed) % 10);
            number[0] = (char) ('1' + test_rand(&seed) % 9);
            number[digits] = '\0';
            snprintf(data, sizeof(data), "\"exec_id\":%s,\"size\":%s", digits < 18 ? number : "7",
                     number);
            put_event(&b, 0, i, "", data);
        }
        mrd_buf_text(&b, "]}");
        read = both("numbers", padded(&b), 0);
        CHECK(digits > 18 || read > 190);
        mrd_buf_fini(&b);
    }
}

TEST(what_is_not_plain_is_left_to_the_reader)
{
    static const char *const data[] = {
        "\"a\":1.5",
        "\"a\":-1",
        "\"a\":-0",
        "\"a\":0",
        "\"a\":01",
        "\"a\":-",
        "\"a\":1e3",
        "\"a\":12345678,\"b\":123456789,\"c\":1234567890123456",
        "\"a\":12345678901234567,\"b\":1234567890123456789",
        "\"a\":18446744073709551615,\"b\":18446744073709551616",
        "\"a\":9223372036854775808,\"b\":-9223372036854775808,\"c\":-9223372036854775809",
        "\"a\":00000000,\"b\":123456781234567812345",
        "\"a\":null",
        "\"a\":[1,2],\"b\":{\"c\":{}}",
        "\"data\":{\"a\":1}",
        "\"a\":\"x\\ny\"",
        "\"a\\u0062\":\"x\"",
        "\"a\":\"\xc3\xa9\"",
        "\"a\":\"\xff\"",
        "\"a\":\"\x01\"",
        "\"a\":\"\"",
        "\"\":1",
        "\"a\":tru",
        "\"a\":trueish",
        "\"a\":1,",
        "\"a\":1,,\"b\":2",
        "\"a\" 1",
        "\"a\":12x",
        "\"a\":\"x\" \"b\":1",
        "\"exec_id\":-5",
        "\"exec_id\":\"0x10\"",
        "\"exec_id\":true",
        "\"device_core_idx\":-1",
        "\"device_core_idx\":18446744073709551615",
        "\"nc_timestamp_ns\":18446744073709551615",
        "\"nc_timestamp_ns\":-4",
        "\"nc_timestamp_ns\":5,\"cpu_timestamp_ns\":1700000000000000000",
        "\"a_key_that_is_much_longer_than_any_of_the_runtime's_so_that_it_is_no_step\":1",
        "\"a\":1}}, {\"event_type\":\"x\",\"data\":{",
        "\"a\":1},\"data\":{\"b\":2",
        "\"a\":1},\"timestamp_ns\":true,\"data\":{",
        "\"a\":1},\"timestamp_ns\":\"17\",\"data\":{",
        "\"a\":1},\"id\":-1,\"data\":{",
        "\"a\":1},\"id\":\"x\",\"data\":{",
        "\"a\":1},\"phase\":1,\"data\":{",
        "\"a\":1},\"phase\":\"instant\",\"data\":{",
        "\"a\":1},\"phase\":\"later\",\"data\":{",
        "\"a\":1},\"event_type\":\"\",\"data\":{",
        "\"a\":1},\"event_type\":7,\"data\":{",
        "\"a\":1},\"data\":7,\"data\":{",
        "\"a\":1},\"nc_idx\":null,\"data\":{",
        "\"a\":1},\"nc_idx\":-1,\"thread_id\":-2,\"data\":{",
        "\"a\":1},\"tracking_id\":-1,\"data\":{",
        "\"a\":1},\"nc_local_id\":1.5,\"data\":{",
        "\"a\":1},\"nrta_seq_id\":12,\"data\":{",
    };

    for (size_t i = 0; i < MRD_COUNT(data); i++) {
        mrd_buf b = { 0 };
        mrd_str text;

        mrd_buf_text(&b, "{\"data_version\":2,\"events\":[");
        for (unsigned k = 0; k < 12; k++)
            put_event(&b, 0, k, "", k % 4 == 2 ? data[i] : "\"a\":5,\"exec_id\":6");
        mrd_buf_text(&b, "]}");
        text = padded(&b);
        both(data[i], text, 0);
        both(data[i], text, 61);
        for (size_t cut = 1; cut < 700; cut += 7) { /* every kind of end, followed by zero bytes */
            mrd_buf part = { 0 };

            mrd_buf_add(&part, text.p, text.len - cut);
            both(data[i], padded(&part), 0);
            mrd_buf_fini(&part);
        }
        mrd_buf_fini(&b);
    }
}

/* After random changes of bytes, both paths still give the same result. */
TEST(damaged_text_is_the_same_to_both)
{
    static const char odd[] = "\",:{}[] \\-0123456789tfn\x80\x00\x01.";
    uint64_t random = 1;

    for (int round = 0; round < 4000; round++) {
        mrd_buf b = { 0 };
        mrd_str text;

        mrd_buf_text(&b, "{\"data_version\":2,\"events\":[");
        for (unsigned k = 0; k < 8; k++)
            put_event(&b, round % 4, k, k % 3 == 0 ? "\"seq\":1," : "",
                      k % 2 == 0 ? "\"exec_id\":6,\"s\":\"t\",\"w\":true,\"n\":-3" : "");
        mrd_buf_text(&b, "]}");
        for (int i = 0; i < 2; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            b.p[(random >> 33) % b.len] = (uint8_t) odd[(random >> 20) % (sizeof(odd) - 1)];
        }
        text = padded(&b);
        both("damaged", text, round % 3 == 0 ? (size_t) (1 + round % 50) : 0);
        mrd_buf_fini(&b);
    }
}

/* The fast path remembers names. If a text has ever new names, its memory stays limited, because it
 * forgets all of them. Later events use the fast path again. */
TEST(texts_that_do_not_come_back_are_forgotten)
{
    mrd_buf b = { 0 };
    uint64_t read;

    mrd_buf_text(&b, "{\"data_version\":2,\"events\":[");
    for (unsigned i = 0; i < 3 * NRT_STEPS; i++) {
        char more[32];

        snprintf(more, sizeof(more), "\"key_%u\":1,", i);
        put_event(&b, 0, i, more, "");
    }
    for (unsigned i = 1; i <= NRT_FORGET; i++) /* not remembered until all names are forgotten */
        put_event(&b, 0, i, "", "");
    for (unsigned i = 1; i <= 1000; i++)
        put_event(&b, 0, i, "\"other\":1,", "");
    mrd_buf_text(&b, "]}");
    read = both("many keys", padded(&b), 0);
    CHECK(read > 2000);
    mrd_buf_fini(&b);
}

TEST_MAIN()
