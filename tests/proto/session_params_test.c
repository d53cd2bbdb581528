/* Tests the parameters of a session on the whole way from the option to the agent, and their rows
 * in docs/reference/http.md and docs/reference/openapi.json. */
#include "proto/session_params.h"

#include "base/obj.h"
#include "tests/check.h"

static mrd_session_params
defaults(void)
{
    mrd_session_params p;

    CHECK_ERR("init", mrd_session_params_init(&p), MRD_OK);
    return p;
}

/* Every parameter differs from its default. */
static mrd_session_params
unusual(void)
{
    mrd_session_params p = defaults();

    for (size_t i = 0; i < MRD_SESSION_PARAMS; i++) {
        const mrd_session_param *row = &mrd_session_param_table[i];
        const char *last = row->kind == MRD_PARAM_CHOICE ? strrchr(row->arg, ',') + 1 : NULL;
        const char *text = row->kind == MRD_PARAM_TEXT     ? "17"
                           : row->kind == MRD_PARAM_CHOICE ? last
                           : row->kind == MRD_PARAM_BOOL   ? strcmp(row->def, "1") == 0 ? "0" : "1"
                           : row->kind == MRD_PARAM_DUR    ? "90s"
                           : row->kind == MRD_PARAM_SIZE   ? "3M"
                                                           : "a.b*";

        CHECK_ERR(row->request, mrd_session_params_set(&p, row->request, text, NULL), MRD_OK);
    }
    CHECK_ERR("second word", mrd_session_params_set(&p, "counters", "c", NULL), MRD_OK);
    return p;
}

static void
check_same(const char *way, const mrd_session_params *a, const mrd_session_params *b)
{
    mrd_json *x = mrd_json_new_object(), *y = mrd_json_new_object();
    mrd_buf s = { 0 }, t = { 0 };

    mrd_session_params_put_json(a, x);
    mrd_session_params_put_json(b, y);
    mrd_json_write(x, false, &s);
    mrd_json_write(y, false, &t);
    CHECK_ROW(way, strcmp(mrd_buf_cstr(&s), mrd_buf_cstr(&t)) == 0);
    CHECK_ROW(way, mrd_json_size(x) == MRD_SESSION_PARAMS);
    mrd_json_free(x);
    mrd_json_free(y);
    mrd_buf_fini(&s);
    mrd_buf_fini(&t);
}

TEST(every_parameter_survives_every_way)
{
    mrd_session_params p = unusual(), copy = { 0 }, json = defaults(), manifest = defaults(),
                       wire = defaults();
    mrd_json *body = mrd_json_new_object(), *file = mrd_json_new_object();
    mrd_session_labels room;
    Mrd__Control control = MRD__CONTROL__INIT;

    CHECK_ERR("copy", mrd_session_params_copy(&copy, &p), MRD_OK);
    check_same("copy", &p, &copy);
    mrd_session_params_put_json(&p, body);
    CHECK_ERR("json", mrd_session_params_from_json(&json, body, NULL), MRD_OK);
    check_same("json", &p, &json);
    mrd_session_params_put_manifest(&p, file);
    mrd_session_params_from_manifest(&manifest, file);
    check_same("manifest", &p, &manifest);
    mrd_session_params_put_wire(&p, &room, &control);
    CHECK_ERR("wire", mrd_session_params_from_wire(&wire, &control, NULL), MRD_OK);
    for (size_t i = 0; i < MRD_SESSION_PARAMS; i++) { /* not sent to agents */
        const mrd_session_param *row = &mrd_session_param_table[i];

        if (row->field == 0 && row->label == NULL)
            CHECK_ERR(row->request,
                      mrd_session_params_set(&wire, row->request,
                                             row->kind == MRD_PARAM_TEXT   ? "17"
                                             : row->kind == MRD_PARAM_BOOL ? "0"
                                                                           : "90s",
                                             NULL),
                      MRD_OK);
    }
    check_same("wire", &p, &wire);
    mrd_session_params_fini(&p);
    mrd_session_params_fini(&copy);
    mrd_session_params_fini(&json);
    mrd_session_params_fini(&manifest);
    mrd_session_params_fini(&wire);
    mrd_json_free(body);
    mrd_json_free(file);
}

/* Agents of earlier releases must still understand the control message. The options that they know
 * must therefore be in the same order as before. Newer options may stand between them. */
TEST(the_wire_is_what_it_was)
{
    static const char *const labels[][2] = { { "device_profiles", "on-fail" },
                                             { "profile_model",
                                               /* the options from here to "neffs" are newer than
                                                * the others */
                                               "a.b*" },
                                             { "profile_execution", "3145728" },
                                             { "profile_warmup", "3145728" },
                                             { "inspect", "a.b*" },
                                             { "inspect_events", "3145728" },
                                             { "neffs", "1" },
                                             { "counter", "a.b*" },
                                             { "counter", "c" },
                                             { "counter_period", "90000000000" },
                                             { "wait", "1" },
                                             { "from_step", "3145728" },
                                             { "to_step", "3145728" },
                                             { "steps", "execution" } };
    mrd_session_params p = unusual(), none = defaults();
    mrd_session_labels room;
    Mrd__Control c = MRD__CONTROL__INIT;
    size_t known = 0;

    mrd_session_params_put_wire(&p, &room, &c);
    CHECK_TEXT(c.name, "17");
    CHECK(c.mode == MRD__SESSION_MODE__MODE_RECORDER);
    CHECK_INT(c.recorder_ns, 90 * MRD_SEC);
    CHECK_INT(c.recorder_bytes, 3 << 20);
    for (size_t i = 0; i < c.n_options && known < MRD_COUNT(labels); i++)
        known += strcmp(c.options[i]->key, labels[known][0]) == 0 &&
                 strcmp(c.options[i]->value, labels[known][1]) == 0;
    CHECK_TEXT(known < MRD_COUNT(labels) ? labels[known][0] : "all", "all");
    none.counter_period = 5 * MRD_SEC; /* a counter period without counters is not sent */
    mrd_session_params_put_wire(&none, &room, &c);
    CHECK(c.n_options == 0 && c.mode == MRD__SESSION_MODE__MODE_STREAM);
    CHECK_INT(c.recorder_bytes, 256 << 20);
    mrd_session_params_fini(&p);
    mrd_session_params_fini(&none);
}

TEST(what_does_not_go_together)
{
    static const struct {
        const char *request, *text, *other, *other_text, *refused;
    } rows[] = {
        { "inspect", "all", "device_profiles", "on-fail", NULL },
        { "inspect", "all", "profile_warmup", "3", NULL },
        { "inspect", "all", "inspect_events", "3", NULL },
        { "inspect", "system_profile", "inspect_events", "3", NULL },
        { "inspect", "cpu_util", "inspect_events", "3", "inspect_events goes with" },
        { "device_profiles", "model", "profile_models", "a*", NULL },
        { "device_profiles", "model", "profile_execution", "2", NULL },
        { "device_profiles", "model", "profile_warmup", "2", NULL },
        { "inspect", "all", "device_profiles", "model", "inspect and device_profiles 'model'" },
        { "inspect", "all", "device_profiles", "continuous", "'continuous' do not go together" },
        { "profile_models", "a", "device_profiles", "on-fail", "profile_models goes with" },
        { "profile_execution", "2", "inspect", "all", "profile_execution goes with" },
        { "from_step", "9", "to_step", "9", NULL },
        { "from_step", "9", "to_step", "8", "to_step 8 lies before from_step 9" },
        { "profile_warmup", "2", "device_profiles", "continuous", "profile_warmup goes with" },
        { "slow_step_percent", "200", "step_name", "iter*", "slow_step_percent goes with mode" },
        { "slow_step_percent", "200", "mode", "recorder", NULL },
        { "slow_collective", "1s", "mode", "stream", "slow_collective goes with mode recorder" },
        { "slow_collective", "1s", "mode", "recorder", NULL },
        { "step_name", "iter*", "mode", "recorder", "step_name goes with slow_step_percent" },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_session_params p = defaults();
        mrd_why why = { 0 };
        mrd_err err;

        CHECK_ERR("one", mrd_session_params_set(&p, rows[i].request, rows[i].text, NULL), MRD_OK);
        CHECK_ERR("other", mrd_session_params_set(&p, rows[i].other, rows[i].other_text, NULL),
                  MRD_OK);
        err = mrd_session_params_check(&p, &why);
        CHECK_ERR(rows[i].request, err, rows[i].refused == NULL ? MRD_OK : MRD_INVALID);
        if (rows[i].refused != NULL)
            CHECK_ROW(why.text, strstr(why.text, rows[i].refused) != NULL);
        CHECK(mrd_session_params_ask_runtime(&p) ==
              (p.inspect.n > 0 || p.device_profiles != MRD_PROFILES_NONE));
        mrd_session_params_fini(&p);
    }
    CHECK(mrd_session_tag(0) == 1 && mrd_session_tag(UINT64_C(0x180000000)) == 1);
    CHECK_INT(mrd_session_tag(UINT64_MAX), INT32_MAX);
}

TEST(what_is_wrong_is_refused_by_name)
{
    static const struct {
        const char *body;
        mrd_err err;
        const char *text;
    } rows[] = {
        { "{\"name\": []}", MRD_TYPE, "name must be text" },
        { "{\"mode\": \"fast\"}", MRD_INVALID, "mode must be one of stream,recorder, not 'fast'" },
        { "{\"mode\": 1}", MRD_TYPE, "mode must be text" },
        { "{\"require\": -1}", MRD_INVALID, "require must be" },
        { "{\"require\": \"1000001\"}", MRD_INVALID, "require must be" },
        { "{\"require\": {}}", MRD_TYPE, "require must be" },
        { "{\"duration\": -1}", MRD_RANGE, "at most 30 days" },
        { "{\"duration\": true}", MRD_TYPE, "duration must be" },
        { "{\"duration\": 0}", MRD_RANGE, "at least 1.00 ms and at most 30 days" },
        { "{\"recorder_bytes\": -1}", MRD_RANGE, "from 1048576 to 1099511627776" },
        { "{\"recorder_bytes\": []}", MRD_TYPE, "recorder_bytes must be" },
        { "{\"slow_step_percent\": 100}", MRD_RANGE, "from 101 to 1073741824" },
        { "{\"slow_step_percent\": 0}", MRD_RANGE, "from 101 to 1073741824" },
        { "{\"merge\": \"yes\"}", MRD_TYPE, "merge must be true or false" },
        { "{\"device_profiles\": \"some\"}", MRD_INVALID, "none,model,continuous,on-fail" },
        { "{\"counters\": \"x\"}", MRD_TYPE, "counters must be a list" },
        { "{\"counters\": [{}]}", MRD_TYPE, "counters must be a list of names" },
        { "{\"counter_period\": \"1us\"}", MRD_RANGE, "at least 1.00 ms" },
        { "{\"device_profiles\": \"\", \"name\": \"7\"}", MRD_OK, "" },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_session_params p = defaults();
        mrd_why why = { 0 };
        mrd_json *body = NULL;

        REQUIRE(mrd_json_parse(mrd_str_of(rows[i].body), "test", &body, NULL) == MRD_OK);
        CHECK_ERR(rows[i].body, mrd_session_params_from_json(&p, body, &why), rows[i].err);
        CHECK_ROW(rows[i].body, strstr(why.text, rows[i].text) != NULL);
        mrd_session_params_from_manifest(&p, body); /* keeps only valid values */
        CHECK_ROW(rows[i].body, p.counter_period >= MRD_MS && p.duration >= 0);
        mrd_session_params_fini(&p);
        mrd_json_free(body);
    }
}

TEST(agents_refuse_what_they_do_not_know)
{
    static const struct {
        const char *key, *value;
        unsigned times;
        mrd_err err;
    } rows[] = {
        { "from the future", "x", 1, MRD_OK },
        { "device_profiles", "some", 1, MRD_UNSUPPORTED },
        { "device_profiles", "model", 1, MRD_OK },
        { "counter", "a", 64, MRD_OK },
        { "counter", "a", 65, MRD_LIMIT },
        { "counter_period", "1ms", 1, MRD_RANGE },
        { "counter_period", "1000000", 1, MRD_OK },
        { "counter_period", "999999", 1, MRD_RANGE },
    };
    Mrd__Control c = MRD__CONTROL__INIT;
    mrd_session_params p = defaults();
    mrd_why why = { 0 };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        Mrd__Label label = MRD__LABEL__INIT, *list[65];
        Mrd__Control told = MRD__CONTROL__INIT;
        mrd_session_params q = defaults();

        label.key = (char *) (uintptr_t) rows[i].key;
        label.value = (char *) (uintptr_t) rows[i].value;
        for (size_t k = 0; k < 65; k++)
            list[k] = &label;
        told.options = list;
        told.n_options = rows[i].times;
        CHECK_ERR(rows[i].key, mrd_session_params_from_wire(&q, &told, &why), rows[i].err);
        mrd_session_params_fini(&q);
    }
    c.mode = (Mrd__SessionMode) 7;
    CHECK_ERR("mode", mrd_session_params_from_wire(&p, &c, &why), MRD_UNSUPPORTED);
    c.mode = MRD__SESSION_MODE__MODE_STREAM;
    c.recorder_ns = -1;
    CHECK_ERR("recorder_ns", mrd_session_params_from_wire(&p, &c, &why), MRD_RANGE);
    mrd_session_params_fini(&p);
}

/* ---- Documents ---- */

static const char *
document(const char *name, char path[600])
{
    const char *source = getenv("MERIDIAN_SOURCE");

    snprintf(path, 600, "%s/docs/reference/%s", source == NULL ? "." : source, name);
    return path;
}

static void
check_line(const char *doc, const char *line)
{
    if (strstr(doc, line) == NULL)
        fprintf(stderr, "docs/reference/http.md lacks\n%s", line);
    CHECK_ROW(line, strstr(doc, line) != NULL);
}

TEST(http_md_has_a_row_for_each)
{
    static char doc[1 << 18];
    char path[600], line[1024];
    FILE *f = fopen(document("http.md", path), "re");

    REQUIRE(f != NULL);
    doc[fread(doc, 1, sizeof(doc) - 1, f)] = '\0';
    fclose(f);
    for (size_t i = 0; i < MRD_SESSION_PARAMS; i++) {
        const mrd_session_param *row = &mrd_session_param_table[i];

        snprintf(line, sizeof(line), "| `%s` | `--%s` | `%s` | %s | %s |\n", row->request,
                 row->option, row->manifest, row->def == NULL || *row->def == '\0' ? "–" : row->def,
                 row->help);
        check_line(doc, line);
    }
    for (size_t i = 0; i < mrd_select_rows; i++) {
        const mrd_select_row *row = &mrd_select_table[i];

        snprintf(line, sizeof(line), "| `%s` | `--%s` | %s |\n", row->key, row->option, row->help);
        check_line(doc, line);
    }
}

TEST(openapi_has_a_member_for_each)
{
    char path[600];
    mrd_json *doc = NULL;
    const mrd_json *schemas, *request, *manifest, *select;

    REQUIRE(mrd_json_load(document("openapi.json", path), &doc, NULL) == MRD_OK);
    schemas = mrd_json_get(mrd_json_get(doc, "components"), "schemas");
    request = mrd_json_get(mrd_json_get(schemas, "SessionRequest"), "properties");
    manifest = mrd_json_get(mrd_json_get(schemas, "Session"), "properties");
    select = mrd_json_get(mrd_json_get(schemas, "Selection"), "properties");
    CHECK_INT(mrd_json_size(request), MRD_SESSION_PARAMS + 1);
    CHECK_INT(mrd_json_size(select), mrd_select_rows);
    for (size_t i = 0; i < MRD_SESSION_PARAMS; i++) {
        CHECK_ROW(mrd_session_param_table[i].request,
                  mrd_json_get(request, mrd_session_param_table[i].request) != NULL);
        CHECK_ROW(mrd_session_param_table[i].manifest,
                  mrd_json_get(manifest, mrd_session_param_table[i].manifest) != NULL);
    }
    for (size_t i = 0; i < mrd_select_rows; i++)
        CHECK_ROW(mrd_select_table[i].key, mrd_json_get(select, mrd_select_table[i].key) != NULL);
    mrd_json_free(doc);
}

TEST_MAIN()
