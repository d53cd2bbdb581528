#include "tests/check.h"

#include "base/hash.h"
#include "base/obj.h"
#include "proto/batch/codec_int.h"
#include "proto/wire.h"

static const mrd_codec_id all_codecs[] = { MRD_CODEC_NONE, MRD_CODEC_ZSTD };

TEST(crc)
{
    static const struct {
        uint32_t (*crc)(uint32_t start, const void *data, size_t len);
        uint32_t (*soft)(uint32_t start, const void *data, size_t len);
        uint32_t check;
    } cases[] = { { mrd_crc32, mrd_crc32_soft, 0xcbf43926u },     /* RFC 1952, section 8 */
                  { mrd_crc32c, mrd_crc32c_soft, 0xe3069283u } }; /* RFC 3720, appendix B.4 */
    uint8_t data[700];

    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t) (i * 7 + i / 13);
    for (size_t k = 0; k < MRD_COUNT(cases); k++) {
        CHECK(cases[k].crc(0, "123456789", 9) == cases[k].check);
        CHECK(cases[k].soft(0, "123456789", 9) == cases[k].check);
        for (size_t n = 0; n <= sizeof(data); n++) {
            size_t rest = sizeof(data) - n;

            CHECK(cases[k].crc(0, data, n) == cases[k].soft(0, data, n));
            CHECK(cases[k].crc(cases[k].crc(0, data, n), data + n, rest) ==
                  cases[k].soft(0, data, sizeof(data)));
        }
    }
}

TEST(instance_ids)
{
    static const struct {
        const char *id;
        bool ok;
    } rows[] = { { "i-0abc", true },  { "", false },           { ".", false },   { "..", false },
                 { ".x", false },     { "a/b", false },        { "a b", false }, { "a\n", false },
                 { "A_b-c.9", true }, { "caf\xc3\xa9", false } };
    char longest[130];

    for (size_t i = 0; i < MRD_COUNT(rows); i++)
        CHECK_ROW(rows[i].id, mrd_instance_id_valid(mrd_str_of(rows[i].id)) == rows[i].ok);
    memset(longest, 'a', sizeof(longest));
    CHECK(mrd_instance_id_valid((mrd_str){ longest, 128 }));
    CHECK(!mrd_instance_id_valid((mrd_str){ longest, 129 }));
    /* First bytes of SHA-256("abc") are ba 78 16 bf 8f 01 cf ea. */
    CHECK(mrd_agent_key(MRD_STR("abc")) == 0xeacf018fbf1678bau);
}

TEST(session_ids)
{
    static const char *const bad[] = { "",
                                       "20261121-072326-3f2",
                                       "20261121-072326-3F2a",
                                       "20261321-072326-3f2a",
                                       "20261121 072326-3f2a",
                                       "../../etc/passwd0000",
                                       "x000000000000000",
                                       "x0000000000000000" };
    char text[MRD_SESSION_TEXT];
    uint64_t id = mrd_session_id_new(1795245806 * 1000000000ll, 0x3f2a), got;

    CHECK_TEXT(mrd_session_id_text(id, text), "20261121-072326-3f2a");
    CHECK_ERR("back", mrd_session_id_parse(mrd_str_of(text), &got), MRD_OK);
    CHECK(got == id);
    id = mrd_session_id_new(0, 0xffff);
    CHECK_TEXT(mrd_session_id_text(id, text), "19700101-000000-ffff");
    id = 253402300799ull << 16 | 1; /* the last second of a four-digit year */
    CHECK_TEXT(mrd_session_id_text(id, text), "99991231-235959-0001");
    CHECK_ERR("back", mrd_session_id_parse(mrd_str_of(text), &got), MRD_OK);
    CHECK(got == id);
    id = 253402300800ull << 16 | 1;
    CHECK_TEXT(mrd_session_id_text(id, text), "x003afff441800001");
    for (uint64_t v = 1; v != 0; v <<= 1) { /* every id has one name, which gives the id again */
        mrd_session_id_text(v, text);
        CHECK_ERR(text, mrd_session_id_parse(mrd_str_of(text), &got), MRD_OK);
        CHECK(got == v);
        mrd_session_id_text(~v, text);
        CHECK_ERR(text, mrd_session_id_parse(mrd_str_of(text), &got), MRD_OK);
        CHECK(got == ~v);
    }
    for (size_t i = 0; i < MRD_COUNT(bad); i++)
        CHECK_ERR(bad[i], mrd_session_id_parse(mrd_str_of(bad[i]), &got), MRD_SYNTAX);
}

/* Every field of a header is decoded unchanged, and nothing of the destination's previous contents
 * remains. */
TEST(every_field_of_a_header_comes_back)
{
    uint8_t to[MRD_FRAME_HEADER + 8], again[MRD_FRAME_HEADER];
    const mrd_frame f = { .type = MRD_FRAME_BATCH,
                          .codec = MRD_CODEC_ZSTD,
                          .clock = 1,
                          .head_len = 3,
                          .head_raw = 0x010203,
                          .cols_raw = 0x0a0b0c,
                          .events = 7,
                          .agent = 0x1112131415161718,
                          .epoch = 0x2122232425262728,
                          .session = 0x3132333435363738,
                          .seq = 0x4142434445464748,
                          .process_id = 0x51525354,
                          .first = { 0x6162636465666768 },
                          .last = { 0x7172737475767778 },
                          .boot = 0x81828384 };

    for (int before = 0; before < 256; before += 255) {
        mrd_frame put = f, got = { 0 };

        memset(to, before, sizeof(to));
        mrd_frame_put(&put, (mrd_bytes){ to + MRD_FRAME_HEADER, 8 }, to);
        CHECK_INT(put.body_len, 8);
        CHECK_ERR("get", mrd_frame_get((mrd_bytes){ to, sizeof(to) }, &got, NULL), MRD_OK);
        CHECK(got.type == f.type && got.codec == f.codec && got.clock == f.clock);
        CHECK(got.body_len == 8 && got.head_len == f.head_len && got.head_raw == f.head_raw);
        CHECK(got.cols_raw == f.cols_raw && got.events == f.events);
        CHECK(got.body_crc == put.body_crc && got.agent == f.agent && got.epoch == f.epoch);
        CHECK(got.session == f.session && got.seq == f.seq && got.process_id == f.process_id);
        CHECK(got.first.ns == f.first.ns && got.last.ns == f.last.ns && got.boot == f.boot);
        memset(again, ~before, sizeof(again));
        mrd_frame_stamp(&got, again);
        CHECK(memcmp(again, to, sizeof(again)) == 0);
    }
}

/* Frames with a right checksum and invalid fields. */
TEST(frame_rejects)
{
    static const struct {
        const char *name;
        mrd_frame f;
        mrd_err want;
    } rows[] = {
        { "type 0", { .type = 0 }, MRD_UNSUPPORTED },
        { "type of the future", { .type = MRD_FRAME_TYPES }, MRD_UNSUPPORTED },
        { "batch without events", { .type = MRD_FRAME_BATCH }, MRD_LIMIT },
        { "too many events",
          { .type = MRD_FRAME_BATCH, .events = MRD_BATCH_EVENTS + 1 },
          MRD_LIMIT },
        { "as many as there may be",
          { .type = MRD_FRAME_BATCH, .events = MRD_BATCH_EVENTS, .cols_raw = 10 },
          MRD_OK },
        { "a bomb",
          { .type = MRD_FRAME_BATCH, .events = 1, .codec = MRD_CODEC_ZSTD, .cols_raw = 1u << 31 },
          MRD_LIMIT },
        { "LZ4 of earlier releases",
          { .type = MRD_FRAME_BATCH, .events = 1, .codec = 1 },
          MRD_UNSUPPORTED },
        { "codec 3", { .type = MRD_FRAME_BATCH, .events = 1, .codec = 3 }, MRD_UNSUPPORTED },
        { "Zstandard, which previous releases call 2",
          { .type = MRD_FRAME_BATCH,
            .events = 1,
            .codec = 2,
            .head_len = 4,
            .head_raw = 5,
            .cols_raw = 6 },
          MRD_OK },
        { "head longer than body",
          { .type = MRD_FRAME_BATCH, .events = 1, .head_len = 11, .head_raw = 11 },
          MRD_CORRUPT },
        { "lengths without codec",
          { .type = MRD_FRAME_BATCH, .events = 1, .head_len = 4, .head_raw = 5, .cols_raw = 6 },
          MRD_CORRUPT },
        { "first after last",
          { .type = MRD_FRAME_BATCH,
            .events = 1,
            .head_len = 4,
            .head_raw = 4,
            .cols_raw = 6,
            .first = { 1 } },
          MRD_CORRUPT },
        { "a batch",
          { .type = MRD_FRAME_BATCH, .events = 1, .head_len = 4, .head_raw = 4, .cols_raw = 6 },
          MRD_OK },
        { "a hello", { .type = MRD_FRAME_HELLO }, MRD_OK },
    };
    uint8_t body[10] = { 0 };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        uint8_t *exact = malloc(MRD_FRAME_HEADER + sizeof(body));
        mrd_bytes data = { exact, MRD_FRAME_HEADER + sizeof(body) }, got_body;
        mrd_frame f = rows[i].f, got;
        mrd_why why = { 0 };

        mrd_frame_put(&f, (mrd_bytes){ body, sizeof(body) }, exact);
        memcpy(exact + MRD_FRAME_HEADER, body, sizeof(body));
        CHECK_ERR(rows[i].name, mrd_frame_check(data, &got, &got_body, &why), rows[i].want);
        CHECK_ROW(rows[i].name, (rows[i].want == MRD_OK) == (why.text[0] == '\0'));
        free(exact);
    }
}

/* Truncated frames, and frames with extra bytes at the end. */
TEST(a_frame_is_exactly_its_length)
{
    uint8_t wire[MRD_FRAME_HEADER + 11] = { 0 };
    mrd_frame f = { .type = MRD_FRAME_HELLO }, got;

    mrd_frame_put(&f, (mrd_bytes){ wire + MRD_FRAME_HEADER, 10 }, wire);
    for (size_t len = 0; len <= sizeof(wire); len++) {
        mrd_err want = len < MRD_FRAME_HEADER + 10   ? MRD_TRUNCATED
                       : len > MRD_FRAME_HEADER + 10 ? MRD_CORRUPT
                                                     : MRD_OK;
        mrd_bytes body = { 0 };
        mrd_why why = { 0 };

        CHECK_ERR("length", mrd_frame_check((mrd_bytes){ wire, len }, &got, &body, &why), want);
        CHECK_INT(body.len, want == MRD_OK ? 10 : 0);
        CHECK(want == MRD_OK || why.text[0] != '\0');
    }
}

/* Data that cannot be compressed is stored unchanged, so it never grows. */
TEST(packing_never_grows)
{
    enum { COLUMN = 6000, N = 3 };
    mrd_codec *codec = mrd_codec_new();
    mrd_habit habits[N] = { { 0 } };
    size_t ends[N] = { COLUMN, 2 * COLUMN, 3 * COLUMN };
    uint8_t *src = malloc(N * COLUMN);
    uint64_t state = 88172645463325252u;
    mrd_buf to = { 0 }, back = { 0 };
    mrd_bytes got;

    for (size_t i = 0; i < N * COLUMN; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        src[i] = (uint8_t) state;
    }
    for (size_t i = 0; i < MRD_COUNT(all_codecs); i++) {
        mrd_codec_id id = all_codecs[i];

        mrd_buf_reset(&to);
        CHECK_ERR(
            "pack",
            mrd_codec_pack_columns(codec, id, (mrd_bytes){ src, N * COLUMN }, ends, habits, N, &to),
            MRD_OK);
        CHECK_INT(to.len, N * COLUMN);
        CHECK_ERR(
            "unpack",
            mrd_codec_unpack(codec, id, (mrd_bytes){ to.p, to.len }, N * COLUMN, &back, &got, NULL),
            MRD_OK);
        CHECK(got.len == N * COLUMN && memcmp(got.p, src, got.len) == 0);
    }
    mrd_buf_fini(&to);
    mrd_buf_fini(&back);
    free(src);
    mrd_codec_free(codec);
    mrd_codec_free(NULL);
}

/* Repeated data becomes much smaller and is restored, also when the codec is used again. */
TEST(what_repeats_is_packed)
{
    static uint8_t bytes[100000];
    mrd_codec *codec = mrd_codec_new();
    mrd_buf packed = { 0 }, back = { 0 };
    mrd_bytes got;

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t) (i % 50);
    for (size_t i = 0; i < 2; i++) {
        mrd_buf_reset(&packed);
        CHECK_ERR(
            "pack",
            mrd_codec_pack(codec, MRD_CODEC_ZSTD, (mrd_bytes){ bytes, sizeof(bytes) }, &packed),
            MRD_OK);
        CHECK(packed.len > 0 && packed.len < sizeof(bytes) / 50);
        CHECK_ERR("unpack",
                  mrd_codec_unpack(codec, MRD_CODEC_ZSTD, (mrd_bytes){ packed.p, packed.len },
                                   sizeof(bytes), &back, &got, NULL),
                  MRD_OK);
        CHECK(got.len == sizeof(bytes) && memcmp(got.p, bytes, got.len) == 0);
    }
    mrd_buf_fini(&packed);
    mrd_buf_fini(&back);
    mrd_codec_free(codec);
}

/* Data that does not unpack to the stated size is refused with every codec. */
TEST(what_does_not_unpack_is_refused)
{
    mrd_codec *codec = mrd_codec_new();
    uint8_t junk[40] = { 1, 2, 3, 0xff };
    mrd_buf to = { 0 };
    mrd_bytes got;

    for (size_t i = 0; i < MRD_COUNT(all_codecs); i++) {
        mrd_codec_id id = all_codecs[i];
        mrd_why why = { 0 };

        CHECK_ERR(
            "junk",
            mrd_codec_unpack(codec, id, (mrd_bytes){ junk, sizeof(junk) }, 500, &to, &got, &why),
            MRD_CORRUPT);
        CHECK(strstr(why.text, "500") != NULL);
        CHECK_ERR("as it is",
                  mrd_codec_unpack(codec, id, (mrd_bytes){ junk, sizeof(junk) }, sizeof(junk), &to,
                                   &got, &why),
                  MRD_OK);
        CHECK(got.p == junk && got.len == sizeof(junk));
    }
    mrd_buf_fini(&to);
    mrd_codec_free(codec);
}

TEST(other_major_is_refused_with_a_message)
{
    uint8_t h[MRD_FRAME_HEADER];
    mrd_frame f = { .type = MRD_FRAME_HELLO };
    mrd_why why = { 0 };

    mrd_frame_put(&f, (mrd_bytes){ h, 0 }, h);
    h[4] = 2;
    CHECK_ERR("major", mrd_frame_get((mrd_bytes){ h, sizeof(h) }, &f, &why), MRD_VERSION);
    CHECK(strstr(why.text, "version 2") != NULL && strstr(why.text, "this program 1") != NULL);
}

TEST(messages)
{
    Mrd__Control c = MRD__CONTROL__INIT;
    Mrd__Selection select = MRD__SELECTION__INIT;
    char name[] = "n\xc3\xa4me", one[] = "i-1", *list[] = { one };
    int64_t ranks[] = { 0, INT64_MIN, INT64_MAX };
    mrd_frame f = { .type = MRD_FRAME_CONTROL, .session = 5, .agent = 6 };
    mrd_buf wire = { 0 };
    mrd_msg msg;
    mrd_why why;
    size_t one_len;

    select.instances = list;
    select.n_instances = 1;
    select.ranks = ranks;
    select.n_ranks = 3;
    c.type = MRD__CONTROL_TYPE__CONTROL_GO;
    c.session = UINT64_MAX;
    c.name = name;
    c.select = &select;
    c.at_session_ns = INT64_MIN;
    CHECK_ERR("pack", mrd_msg_pack(&f, &c, &wire, &why), MRD_OK);
    CHECK_ERR("unpack", mrd_msg_unpack((mrd_bytes){ wire.p, wire.len }, &msg, &why), MRD_OK);
    CHECK(msg.frame.session == 5 && msg.frame.agent == 6);
    CHECK(msg.u.control->session == UINT64_MAX && msg.u.control->at_session_ns == INT64_MIN);
    CHECK_TEXT(msg.u.control->name, name);
    CHECK(msg.u.control->select->n_ranks == 3 && msg.u.control->select->ranks[1] == INT64_MIN);
    CHECK_TEXT(msg.u.control->select->instances[0], "i-1");
    mrd_msg_free(&msg);
    for (size_t n = 0; n < wire.len; n++)
        CHECK(mrd_msg_unpack((mrd_bytes){ wire.p, n }, &msg, &why) != MRD_OK);
    one_len = wire.len; /* a second message follows; both are complete */
    c.session = 77;
    CHECK_ERR("pack", mrd_msg_pack(&f, &c, &wire, &why), MRD_OK);
    CHECK_ERR("first", mrd_msg_unpack((mrd_bytes){ wire.p, one_len }, &msg, &why), MRD_OK);
    CHECK(msg.u.control->session == UINT64_MAX);
    mrd_msg_free(&msg);
    CHECK_ERR("second",
              mrd_msg_unpack((mrd_bytes){ wire.p + one_len, wire.len - one_len }, &msg, &why),
              MRD_OK);
    CHECK_INT(msg.u.control->session, 77);
    mrd_msg_free(&msg);
    mrd_buf_fini(&wire);
}

/* A small body that would expand into a large message is refused at the limit. */
TEST(memory_of_a_message_is_bounded)
{
    mrd_frame f = { .type = MRD_FRAME_ACK };
    size_t len = MRD_FRAME_MSG_MAX / 2 * 2;
    uint8_t *body = malloc(len);
    mrd_msg msg;
    mrd_why why = { 0 };
    mrd_err err;

    for (size_t i = 0; i < len; i += 2) {
        body[i] = 6 << 3 | 2; /* an empty directive: two bytes on the wire, 150 in memory */
        body[i + 1] = 0;
    }
    err = mrd_msg_unpack_body(&f, (mrd_bytes){ body, len }, &msg, &why);
    CHECK_ERR("bomb", err, MRD_CORRUPT);
    free(body);
}

TEST_MAIN()
