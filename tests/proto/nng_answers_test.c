/* tests/proto/nng_faults_test.c shows faults of NNG. This test shows that they do not occur with
 * proto/nng/. The workarounds for other faults have tests of their own: proto/nng_end, proto/tls,
 * proto/unaccepted. */
#include "tests/proto/nng_faults.h"

#include "proto/link.h"
#include "tests/check.h"

TEST(a_refused_operation_ends_with_an_error)
{
    mrd_link_options o = { .data_url = "inproc://nobody" };
    mrd_link *link = NULL;
    int rv;

    CHECK_ERR("link", mrd_link_open(&o, &link, NULL), MRD_OK); /* as every program has one */
    CHECK(faults_refused_is_reported(&rv));
    CHECK_INT(rv, NNG_ECLOSED);
    mrd_link_close(link);
}

TEST_MAIN()
