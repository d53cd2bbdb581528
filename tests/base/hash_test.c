#include "tests/check.h"

#include "base/hash.h"

/* RFC 4231, test cases 1 and 2. */
TEST(hmac_of_the_standard)
{
    uint8_t key[20];

    memset(key, 0x0b, sizeof(key));
    CHECK(mrd_hmac64((mrd_bytes){ key, sizeof(key) },
                     (mrd_bytes){ (const uint8_t *) "Hi There", 8 }) == 0x5338dbd8614c34b0u);
    CHECK(mrd_hmac64((mrd_bytes){ (const uint8_t *) "Jefe", 4 },
                     (mrd_bytes){ (const uint8_t *) "what do ya want for nothing?", 28 }) ==
          0x4e7560bf46c1dc5bu);
}

/* RFC 1321, test suite; as RFC 1864 writes it. */
TEST(md5_of_the_standard)
{
    static const char *const rows[][2] = {
        { "", "1B2M2Y8AsgTpgAmY7PhCfg==" },
        { "abc", "kAFQmDzST7DWlj99KOF/cg==" },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_md5 *md5 = mrd_md5_new();
        char text[MRD_MD5_TEXT];

        for (const char *p = rows[i][0]; *p != '\0'; p++)
            mrd_md5_add(md5, p, 1);
        mrd_md5_base64(md5, text);
        CHECK_ROW(rows[i][0], strcmp(text, rows[i][1]) == 0);
        mrd_md5_free(md5);
    }
}

TEST_MAIN()
