#include "base/num.h"

#include "tests/check.h"

TEST(scaled_is_exact)
{
    static const struct {
        const char *name, *text;
        int exp10;
        mrd_err err;
        int64_t want;
    } rows[] = {
        { "epoch us with ns digits", "1712195495406752.8", 3, MRD_OK, 1712195495406752800 },
        { "integer us", "1694128201556001", 3, MRD_OK, 1694128201556001000 },
        { "three decimals", "12.345", 3, MRD_OK, 12345 },
        { "half rounds away", "0.0005", 3, MRD_OK, 1 },
        { "below half", "0.00049", 3, MRD_OK, 0 },
        { "negative half", "-0.0005", 3, MRD_OK, -1 },
        { "exponent", "1.5e3", 3, MRD_OK, 1500000 },
        { "small exponent", "5e-4", 3, MRD_OK, 1 },
        { "tiny", "5e-9", 3, MRD_OK, 0 },
        { "zero with a huge exponent", "0e99999", 3, MRD_OK, 0 },
        { "nines round up", "0.9999", 3, MRD_OK, 1000 },
        { "scale down", "1499", -3, MRD_OK, 1 },
        { "largest", "9223372036854775.807", 3, MRD_OK, INT64_MAX },
        { "smallest", "-9223372036854775.808", 3, MRD_OK, INT64_MIN },
        { "too large", "9223372036854775.808", 3, MRD_RANGE, 0 },
        { "huge exponent", "1e400", 3, MRD_RANGE, 0 },
        { "empty", "", 3, MRD_SYNTAX, 0 },
        { "no digit after the point", "1.", 3, MRD_SYNTAX, 0 },
        { "junk", "12x", 3, MRD_SYNTAX, 0 },
        { "NaN", "NaN", 3, MRD_SYNTAX, 0 },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        int64_t v = 77;

        CHECK_ERR(rows[i].name, mrd_num_scaled(mrd_str_of(rows[i].text), rows[i].exp10, &v),
                  rows[i].err);
        CHECK_ROW(rows[i].name, v == (rows[i].err == MRD_OK ? rows[i].want : 77));
    }
}

TEST(integers_reject_junk_and_range)
{
    int64_t i = 0;
    uint64_t u = 0;

    CHECK_ERR("max", mrd_num_u64(MRD_STR("18446744073709551615"), &u), MRD_OK);
    CHECK(u == UINT64_MAX);
    CHECK_ERR("over", mrd_num_u64(MRD_STR("18446744073709551616"), &u), MRD_RANGE);
    CHECK_ERR("hex", mrd_num_u64(MRD_STR("0xffffffffffffffff"), &u), MRD_OK);
    CHECK_ERR("hex over", mrd_num_u64(MRD_STR("0x1ffffffffffffffff"), &u), MRD_RANGE);
    CHECK_ERR("blank", mrd_num_u64(MRD_STR(" 1"), &u), MRD_SYNTAX);
    CHECK_ERR("min", mrd_num_i64(MRD_STR("-9223372036854775808"), &i), MRD_OK);
    CHECK(i == INT64_MIN);
    CHECK_ERR("under", mrd_num_i64(MRD_STR("-9223372036854775809"), &i), MRD_RANGE);
    CHECK_ERR("minus", mrd_num_i64(MRD_STR("-"), &i), MRD_SYNTAX);
}

TEST(sizes_and_durations)
{
    int64_t v = 0;

    CHECK_ERR("64M", mrd_num_size(MRD_STR("64M"), &v), MRD_OK);
    CHECK_INT(v, 64 << 20);
    CHECK_ERR("1.5GiB", mrd_num_size(MRD_STR("1.5GiB"), &v), MRD_OK);
    CHECK_INT(v, 3LL << 29);
    CHECK_ERR("unit", mrd_num_size(MRD_STR("12Q"), &v), MRD_SYNTAX);
    CHECK_ERR("range", mrd_num_size(MRD_STR("99999999999T"), &v), MRD_RANGE);
    CHECK_ERR("250ms", mrd_num_dur(MRD_STR("250ms"), &v), MRD_OK);
    CHECK_INT(v, 250 * MRD_MS);
    CHECK_ERR("bare", mrd_num_dur(MRD_STR("2.5"), &v), MRD_OK);
    CHECK_INT(v, 2500 * MRD_MS);
    CHECK_ERR("empty", mrd_num_dur(MRD_STR(""), &v), MRD_SYNTAX);
}

TEST(digits_agree_with_the_general_parser)
{
    static const char alphabet[] = "0123456789/:.-e ";
    uint64_t seed = 99;

    for (int round = 0; round < 200000; round++) {
        char text[24];
        size_t len;
        uint64_t v = 0, want = 0;
        bool plain = true, ok;

        seed = seed * 6364136223846793005u + 1442695040888963407u;
        len = (size_t) (seed >> 40) % 22;
        for (size_t i = 0; i < len; i++) {
            uint64_t draw = seed >> (i + 11);

            text[i] = alphabet[draw % 64 == 0 ? draw / 64 % (sizeof(alphabet) - 1) : draw % 10];
            plain = plain && text[i] >= '0' && text[i] <= '9';
            want = want * 10 + (uint64_t) (text[i] - '0');
        }
        ok = mrd_num_digits((mrd_str){ text, len }, &v);
        CHECK(ok == (plain && len > 0 && len <= 19));
        CHECK(!ok || v == want);
    }
}

TEST_MAIN()
