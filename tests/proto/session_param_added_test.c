/* Tests that a new session parameter needs only one row in a table. The build appends
 * tests/proto/session_param_added.def to the table. The parameter must then be an option, a member
 * of the request and of the manifest, and a field of the message to agents. */
#include "cli/client/session_options.h"
#include "tests/check.h"

typedef struct {
    mrd_session_request request;
    bool other;
} settings;

static const mrd_opt own[] = {
    { .name = "other", .type = MRD_OPT_BOOL, .offset = offsetof(settings, other) },
    MRD_SESSION_OPTION_ROWS(settings, request, MRD_PARAM_RECORD),
};

TEST(the_command_line_has_it)
{
    mrd_opt table[64];
    size_t n = mrd_session_options(own, 2, table, 64);
    char *const argv[] = { (char *) (uintptr_t) "record", (char *) (uintptr_t) "--pace",
                           (char *) (uintptr_t) "20ms",   (char *) (uintptr_t) "--rank",
                           (char *) (uintptr_t) "1,2",    NULL };
    char *const wrong[] = { (char *) (uintptr_t) "record", (char *) (uintptr_t) "--pace",
                            (char *) (uintptr_t) "2s", NULL };
    mrd_strlist rest = { 0 };
    settings set = { 0 };
    mrd_why why = { 0 };
    mrd_json *body;
    mrd_buf text = { 0 };

    mrd_session_options_init(own, 2, &set);
    CHECK_ERR("defaults", mrd_conf_defaults(table, n, &set, &why), MRD_OK);
    CHECK_INT(set.request.params.pace, 5 * MRD_MS);
    CHECK_ERR("wrong", mrd_conf_args(table, n, &set, 3, wrong, false, &rest, &why), MRD_RANGE);
    CHECK_ERR("args", mrd_conf_args(table, n, &set, 5, argv, false, &rest, &why), MRD_OK);
    CHECK_INT(set.request.params.pace, 20 * MRD_MS);
    body = mrd_session_request_json(&set.request);
    mrd_json_write(body, false, &text);
    CHECK_TEXT(mrd_buf_cstr(&text), "{\"pace\":20000000,\"select\":{\"rank\":[\"1\",\"2\"]}}");
    mrd_buf_fini(&text);
    mrd_json_free(body);
    mrd_strlist_fini(&rest);
    mrd_conf_fini(table, n, &set);
}

TEST(it_travels_to_the_manifest_and_to_agents)
{
    mrd_session_params p, q;
    mrd_session_labels room;
    Mrd__Control control = MRD__CONTROL__INIT;
    mrd_json *body = NULL, *manifest = mrd_json_new_object();
    mrd_why why = { 0 };

    REQUIRE(mrd_json_parse(MRD_STR("{\"pace\": \"7ms\"}"), "test", &body, NULL) == MRD_OK);
    CHECK_ERR("init", mrd_session_params_init(&p), MRD_OK);
    CHECK_ERR("body", mrd_session_params_from_json(&p, body, &why), MRD_OK);
    CHECK_INT(p.pace, 7 * MRD_MS);
    mrd_session_params_put_wire(&p, &room, &control);
    CHECK_ERR("init", mrd_session_params_init(&q), MRD_OK);
    CHECK_ERR("wire", mrd_session_params_from_wire(&q, &control, &why), MRD_OK);
    CHECK_INT(q.pace, 7 * MRD_MS);
    mrd_session_params_put_manifest(&p, manifest);
    CHECK_INT(mrd_json_int(manifest, "pace_ns", 0), 7 * MRD_MS);
    q.pace = 0;
    mrd_session_params_from_manifest(&q, manifest);
    CHECK_INT(q.pace, 7 * MRD_MS);
    mrd_session_params_fini(&p);
    mrd_session_params_fini(&q);
    mrd_json_free(body);
    mrd_json_free(manifest);
}

TEST_MAIN()
