#include "tests/check.h"

#include "base/conf/json.h"

/* A NUL character in a received document is refused with an understandable message. */
TEST(a_nul_is_refused_in_plain_words)
{
    static const char *const rows[] = { "{\"a\": \"x\\u0000y\"}", "{\"\\u0000\": 1}" };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_json *doc = NULL;
        mrd_why why = { 0 };

        CHECK_ERR(rows[i], mrd_json_parse(mrd_str_of(rows[i]), "the body", &doc, &why), MRD_SYNTAX);
        CHECK(strstr(why.text, "the body: line 1, column ") != NULL);
        CHECK(strstr(why.text, "contains the character \\u0000") != NULL);
        CHECK(strstr(why.text, "JSON_") == NULL);
    }
}

TEST_MAIN()
