#include "tests/check.h"

#include <sys/stat.h>
#include <zlib.h>
#include <zstd.h>

#include "base/buf.h"
#include "trace/json/in.h"

/* Reads the whole input in steps of `want` bytes. Returns the final error. */
static mrd_err
read_all(mrd_in *in, size_t want, mrd_buf *to, mrd_why *why)
{
    for (;;) {
        mrd_bytes data;
        mrd_err err = mrd_in_fill(in, want, &data, why);

        if (err != MRD_OK || data.len == 0)
            return err;
        for (size_t i = 0; i < MRD_IN_PAD; i++)
            CHECK(data.p[data.len + i] == 0);
        if (want > data.len)
            want = data.len;
        mrd_buf_add(to, data.p, want);
        mrd_in_consume(in, want);
        CHECK_INT(mrd_in_offset(in), to->len);
    }
}

static mrd_buf
sample(size_t n)
{
    mrd_buf buf = { 0 };

    for (size_t i = 0; buf.len < n; i++)
        mrd_buf_fmt(&buf, "%zu %zu\n", i, i * i % 1009);
    buf.len = n;
    return buf;
}

static void
gzip_add(mrd_buf *to, const uint8_t *p, size_t n)
{
    z_stream z = { 0 };

    mrd_buf_room(to, n + 1024);
    deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
    z.next_in = (Bytef *) (uintptr_t) p;
    z.avail_in = (unsigned) n;
    z.next_out = to->p + to->len;
    z.avail_out = (unsigned) (to->cap - to->len);
    CHECK(deflate(&z, Z_FINISH) == Z_STREAM_END);
    to->len = to->cap - z.avail_out;
    deflateEnd(&z);
}

static void
zstd_add(mrd_buf *to, const uint8_t *p, size_t n)
{
    size_t out;

    mrd_buf_room(to, ZSTD_compressBound(n));
    out = ZSTD_compress(to->p + to->len, to->cap - to->len, p, n, 1);
    CHECK(!ZSTD_isError(out));
    to->len += out;
}

static const struct {
    const char *name;
    void (*add)(mrd_buf *to, const uint8_t *p, size_t n); /* NULL: plain */
    size_t parts;
} forms[] = {
    { "plain", NULL, 1 },
    { "gzip", gzip_add, 1 },
    { "gzip, two members", gzip_add, 2 },
    { "zstd", zstd_add, 1 },
    { "zstd, three frames", zstd_add, 3 },
};

static mrd_buf
encode(size_t form, const mrd_buf *plain)
{
    mrd_buf buf = { 0 };

    if (forms[form].add == NULL) {
        mrd_buf_add(&buf, plain->p, plain->len);
        return buf;
    }
    for (size_t i = 0; i < forms[form].parts; i++) {
        size_t from = plain->len * i / forms[form].parts;
        size_t to = plain->len * (i + 1) / forms[form].parts;

        forms[form].add(&buf, plain->p + from, to - from);
    }
    return buf;
}

TEST(every_form_gives_the_same_bytes)
{
    static const size_t sizes[] = { 1, 3, 4, 5, 1000, MRD_IN_WINDOW, 3 * MRD_IN_WINDOW + 17 };
    static const size_t wants[] = { 1, 1000, MRD_IN_WINDOW / 2 };

    for (size_t s = 0; s < MRD_COUNT(sizes); s++) {
        mrd_buf plain = sample(sizes[s]);

        for (size_t f = 0; f < MRD_COUNT(forms); f++) {
            mrd_buf coded = encode(f, &plain);

            for (size_t w = 0; w < MRD_COUNT(wants); w++) {
                mrd_buf got = { 0 };
                mrd_in *in = NULL;

                if (wants[w] == 1 && sizes[s] > 1000)
                    continue; /* slow, because each byte moves the window, and tests nothing new */
                CHECK_ERR(forms[f].name,
                          mrd_in_memory((mrd_bytes){ coded.p, coded.len }, "mem", &in, NULL),
                          MRD_OK);
                if (w == 1)
                    mrd_in_set_chunk(in, 777);
                CHECK_ERR(forms[f].name, read_all(in, wants[w], &got, NULL), MRD_OK);
                CHECK_ROW(forms[f].name, got.len == plain.len);
                CHECK_ROW(forms[f].name, memcmp(got.p, plain.p, plain.len) == 0);
                CHECK_INT(mrd_in_file_bytes(in), coded.len);
                CHECK_INT(mrd_in_file_size(in), coded.len);
                mrd_in_close(in);
                mrd_buf_fini(&got);
            }
            mrd_buf_fini(&coded);
        }
        mrd_buf_fini(&plain);
    }
}

TEST(a_cut_stream_gives_a_prefix_and_says_truncated)
{
    mrd_buf plain = sample(20000);

    for (size_t f = 1; f < MRD_COUNT(forms); f++) {
        mrd_buf coded = encode(f, &plain);

        for (size_t cut = 5; cut < coded.len; cut += 97) {
            mrd_buf got = { 0 };
            mrd_in *in = NULL;
            mrd_why why = { 0 };
            mrd_err err;

            mrd_in_memory((mrd_bytes){ coded.p, cut }, "cut.gz", &in, NULL);
            err = read_all(in, 4096, &got, &why);
            /* If a file has several compressed members, a cut between two members cannot be
             * detected. */
            CHECK_ROW(forms[f].name, err == MRD_TRUNCATED || (forms[f].parts > 1 && err == MRD_OK));
            CHECK_ROW(forms[f].name, got.len <= plain.len);
            CHECK_ROW(forms[f].name, got.len == 0 || memcmp(got.p, plain.p, got.len) == 0);
            if (err != MRD_OK)
                CHECK_TEXT(why.text, "'cut.gz': the compressed data end before their end mark");
            mrd_in_close(in);
            mrd_buf_fini(&got);
        }
        mrd_buf_fini(&coded);
    }
    mrd_buf_fini(&plain);
}

TEST(damage_gives_the_bytes_before_it)
{
    mrd_buf plain = sample(600000), got = { 0 }, coded = encode(1, &plain);
    mrd_in *in = NULL;
    mrd_why why = { 0 };

    memset(coded.p + coded.len / 2, 0xff, 64);
    mrd_in_memory((mrd_bytes){ coded.p, coded.len }, "bad.gz", &in, NULL);
    CHECK_ERR("gzip", read_all(in, 4096, &got, &why), MRD_CORRUPT);
    CHECK(got.len > plain.len / 4);
    CHECK(strncmp(why.text, "'bad.gz': ", 10) == 0);
    mrd_in_close(in);
    mrd_buf_fini(&plain);
    mrd_buf_fini(&got);
    mrd_buf_fini(&coded);
}

TEST(files)
{
    char path[512];
    mrd_buf got = { 0 };
    mrd_in *in = NULL;
    mrd_why why = { 0 };
    FILE *f;

    snprintf(path, sizeof(path), "%s/none", test_tmp());
    CHECK_ERR("absent", mrd_in_file(path, &in, &why), MRD_NOTFOUND);
    CHECK(strstr(why.text, "/none'") != NULL);
    CHECK_ERR("folder", mrd_in_file(test_tmp(), &in, &why), MRD_IO);
    snprintf(path, sizeof(path), "%s/empty", test_tmp());
    fclose(fopen(path, "w"));
    CHECK_ERR("empty", mrd_in_file(path, &in, &why), MRD_OK);
    CHECK_ERR("empty", read_all(in, 10, &got, &why), MRD_OK);
    CHECK_INT(got.len, 0);
    mrd_in_close(in);
    f = fopen(path, "w");
    fputs("hello", f);
    fclose(f);
    CHECK_ERR("hello", mrd_in_file(path, &in, &why), MRD_OK);
    CHECK_INT(mrd_in_file_size(in), 5);
    CHECK_TEXT(mrd_in_name(in), path);
    CHECK_ERR("hello", read_all(in, 2, &got, &why), MRD_OK);
    CHECK(got.len == 5 && memcmp(got.p, "hello", 5) == 0);
    mrd_in_close(in);
    mrd_buf_fini(&got);
}

TEST_MAIN()
