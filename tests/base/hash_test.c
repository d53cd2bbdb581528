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

TEST_MAIN()
