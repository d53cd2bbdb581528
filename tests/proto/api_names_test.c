/* Tests that member names in JSON documents of the previous release are translated to the present
 * names, at every depth. */
#include "proto/api_names.h"
#include "tests/check.h"

static void
check_renamed(const char *before, const char *after)
{
    mrd_json *doc = NULL;
    mrd_buf text = { 0 };

    REQUIRE(mrd_json_parse(mrd_str_of(before), "test", &doc, NULL) == MRD_OK);
    CHECK_ERR(before, mrd_api_present_names(doc, NULL), MRD_OK);
    mrd_json_write(doc, false, &text);
    CHECK_TEXT(mrd_buf_cstr(&text), after);
    mrd_buf_fini(&text);
    mrd_json_free(doc);
}

TEST(members_of_the_release_before)
{
    check_renamed("{\"sentence\":\"why\"}", "{\"message\":\"why\"}");
    check_renamed("{\"triggers\":[{\"id\":\"1\",\"unheard\":[\"i-1\",\"heard\"]}]}",
                  "{\"triggers\":[{\"id\":\"1\",\"unacknowledged\":[\"i-1\",\"heard\"]}]}");
    check_renamed("[[{\"clocks\":{\"timeline\":[{\"tied_by\":\"nodes\"}]}}]]",
                  "[[{\"clocks\":{\"timeline\":[{\"linked_by\":\"nodes\"}]}}]]");
    check_renamed("{\"lives\":[],\"stop_wanted\":true,\"heard\":false,\"store_sentence\":\"full\"}",
                  "{\"store_message\":\"full\",\"reported\":false,\"incarnations\":[],"
                  "\"stop_requested\":true}");
}

TEST(present_names_stay)
{
    check_renamed("{\"message\":\"new\",\"sentence\":\"old\"}",
                  "{\"message\":\"new\",\"sentence\":\"old\"}");
    check_renamed("{\"message\":\"tied_by\",\"n\":[1,null,\"lives\"]}",
                  "{\"message\":\"tied_by\",\"n\":[1,null,\"lives\"]}");
    check_renamed("[]", "[]");
}

TEST_MAIN()
