/* Tests the lists of models that were loaded on a node, and of its runtime's features: receiving
 * them from the agent, reading them from a manifest, and joining them over nodes. */
#include "aggregator/core/common/limits.h"
#include "aggregator/core/common/text.h"
#include "aggregator/core/node/models.h"
#include "aggregator/core/node/runtime_features.h"
#include "base/buf.h"
#include "base/obj.h"
#include "tests/check.h"

static char *
text_of(const char *text)
{
    return (char *) (uintptr_t) text;
}

static Mrd__ModelLoad
load(const char *sha256, const char *name, const char *path, uint64_t size)
{
    Mrd__ModelLoad m = MRD__MODEL_LOAD__INIT;

    m.sha256 = text_of(sha256);
    m.name = text_of(name);
    m.path = text_of(path);
    m.size = size;
    m.runtime_id = m.lnc_idx = -1;
    return m;
}

/* Formats the models of these loads as JSON without spaces. */
static void
json_of(Mrd__ModelLoad *loads, size_t n, uint64_t left_out, mrd_buf *to)
{
    Mrd__ModelLoad *list[8];
    Mrd__ModelList from = MRD__MODEL_LIST__INIT;
    mrd_json *o = mrd_json_new_object();
    mrd_node_models *l;

    for (size_t i = 0; i < n; i++)
        list[i] = &loads[i];
    from.loads = list;
    from.n_loads = n;
    from.left_out = left_out;
    l = mrd_node_models_new(&from, (mrd_local_ns){ 1000 }, (mrd_wall_ns){ 5000 });
    mrd_node_models_put(l, o);
    mrd_json_write(o, false, to);
    mrd_node_models_unref(l);
    mrd_json_free(o);
}

TEST(what_is_known_of_a_load_is_said)
{
    Mrd__ModelLoad m[2] = { load("ab", "", "", 0), load("cd", "n", "/p", 7) };
    mrd_buf got = { 0 };

    m[0].process_id = 3;
    m[0].model_id = 4;
    m[1].runtime_id = m[1].lnc_idx = 0;
    m[1].lnc_count = 2;
    m[1].kept = true;
    m[1].loaded_local_ns = 1001; /* 1 ns after the reading of both clocks */
    m[1].unloaded_local_ns = 2000;
    json_of(m, 2, 9, &got);
    CHECK_TEXT(
        mrd_buf_cstr(&got),
        "{\"models\":[{\"sha256\":\"ab\",\"size\":0,\"loads\":[{\"process_id\":3,\"model_id\":4,"
        "\"kept\":false}]},{\"sha256\":\"cd\",\"name\":\"n\",\"path\":\"/p\",\"size\":7,\"loads\":"
        "[{\"process_id\":0,\"model_id\":0,\"runtime_id\":0,\"lnc_idx\":0,\"lnc_count\":2,\"kept\":"
        "true,\"loaded_local_ns\":1001,\"loaded\":\"1970-01-01T00:00:00.000005001Z\",\"loaded_ns\":"
        "5001,\"unloaded_local_ns\":2000,\"unloaded\":\"1970-01-01T00:00:00.000006000Z\","
        "\"unloaded_ns\":6000}]}],\"models_left_out\":9}");
    mrd_buf_fini(&got);
}

/* Models are identified by their hash. Without a hash, all other fields together identify a
 * model. */
TEST(loads_of_one_model_are_together)
{
    const struct {
        const char *what;
        Mrd__ModelLoad a, b;
        size_t models;
    } rows[] = {
        { "the same bytes", load("ab", "x", "/p", 1), load("ab", "y", "/q", 2), 1 },
        { "other bytes", load("ab", "x", "/p", 1), load("ac", "x", "/p", 1), 2 },
        { "known and not", load("ab", "x", "/p", 1), load("", "x", "/p", 1), 2 },
        { "all the same", load("", "x", "/p", 1), load("", "x", "/p", 1), 1 },
        { "another name", load("", "x", "/p", 1), load("", "y", "/p", 1), 2 },
        { "another path", load("", "x", "/p", 1), load("", "x", "/q", 1), 2 },
        { "another size", load("", "x", "/p", 1), load("", "x", "/p", 2), 2 },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        Mrd__ModelLoad m[2] = { rows[i].a, rows[i].b };
        mrd_json *o = NULL;
        mrd_buf got = { 0 };

        json_of(m, 2, 0, &got);
        CHECK_ERR("json", mrd_json_parse(mrd_str_of(mrd_buf_cstr(&got)), "m", &o, NULL), MRD_OK);
        CHECK_ROW(rows[i].what, mrd_json_size(mrd_json_get(o, "models")) == rows[i].models);
        for (size_t k = 0; k < rows[i].models; k++)
            CHECK_ROW(rows[i].what,
                      mrd_json_size(mrd_json_get(mrd_json_at(mrd_json_get(o, "models"), k),
                                                 "loads")) == 3 - rows[i].models);
        mrd_json_free(o);
        mrd_buf_fini(&got);
    }
}

TEST(a_name_that_comes_later_is_kept)
{
    Mrd__ModelLoad m[3] = { load("ab", "", "", 1), load("ab", "first", "", 1),
                            load("ab", "second", "", 1) };
    mrd_buf got = { 0 };

    json_of(m, 3, 0, &got);
    CHECK(strstr(mrd_buf_cstr(&got), "\"name\":\"first\"") != NULL);
    CHECK(strstr(mrd_buf_cstr(&got), "second") == NULL);
    mrd_buf_fini(&got);
}

/* The lengths of a node's lists and texts are limited. */
TEST(lists_and_texts_are_bounded)
{
    static Mrd__ModelLoad *list[MRD_LOADS_MAX + 5];
    Mrd__ModelList from = MRD__MODEL_LIST__INIT;
    char longest[400];
    Mrd__ModelLoad m;
    mrd_node_models *l;
    const mrd_json *model;

    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    m = load(longest, longest, longest, 1);
    for (size_t i = 0; i < MRD_COUNT(list); i++)
        list[i] = &m;
    from.loads = list;
    from.n_loads = MRD_LOADS_MAX;
    from.left_out = 3;
    l = mrd_node_models_new(&from, (mrd_local_ns){ 0 }, (mrd_wall_ns){ 0 });
    model = mrd_json_at(l->models, 0);
    CHECK_INT(mrd_json_size(mrd_json_get(model, "loads")), MRD_LOADS_MAX);
    CHECK_INT(l->left_out, 3);
    CHECK_INT(strlen(mrd_json_str(model, "sha256", "")), 64);
    CHECK_INT(strlen(mrd_json_str(model, "name", "")), MRD_TEXT_MAX - 1);
    CHECK_INT(strlen(mrd_json_str(model, "path", "")), MRD_TEXT_MAX - 1);
    mrd_node_models_unref(l);
    from.n_loads = MRD_LOADS_MAX + 5;
    from.left_out = UINT64_MAX;
    l = mrd_node_models_new(&from, (mrd_local_ns){ 0 }, (mrd_wall_ns){ 0 });
    CHECK_INT(mrd_json_size(mrd_json_get(mrd_json_at(l->models, 0), "loads")), MRD_LOADS_MAX);
    CHECK_INT(l->left_out, MRD_COUNT_MAX + 5);
    mrd_node_models_unref(l);
    CHECK(mrd_node_models_new(NULL, (mrd_local_ns){ 0 }, (mrd_wall_ns){ 0 }) == NULL);
}

static mrd_json *
parse(const char *text)
{
    mrd_json *o = NULL;

    CHECK_ERR(text, mrd_json_parse(mrd_str_of(text), "test", &o, NULL), MRD_OK);
    return o;
}

/* A model that several nodes loaded must be listed once, and each of its loads must name its
 * node. */
TEST(models_of_nodes_are_gathered)
{
    mrd_json *a = parse("{\"models\":[{\"sha256\":\"x\",\"loads\":[{\"process_id\":1}]},{\"name\":"
                        "\"lost\"}],\"models_left_out\":4}");
    mrd_json *b = parse("{\"models\":[{\"sha256\":\"y\",\"loads\":[]},{\"sha256\":\"x\",\"name\":"
                        "\"n\",\"loads\":[{\"process_id\":2},{\"process_id\":3}]}]}");
    mrd_json *none = parse("{\"models\":7}"), *all = mrd_json_new_array();
    mrd_node_models *la = mrd_node_models_load(a), *lb = mrd_node_models_load(b);
    mrd_buf got = { 0 };

    REQUIRE(la != NULL && lb != NULL);
    CHECK(mrd_node_models_load(none) == NULL);
    CHECK(la->left_out == 4 && lb->left_out == 0);
    CHECK_INT(mrd_json_size(la->models), 1); /* a model without loads is not listed */
    CHECK(mrd_node_models_ref(la) == la);
    mrd_node_models_unref(la); /* one is left */
    mrd_node_models_gather(la, "i-a", all);
    mrd_node_models_gather(NULL, "i-b", all);
    mrd_node_models_gather(lb, "i-c", all);
    mrd_json_write(all, false, &got);
    CHECK_TEXT(mrd_buf_cstr(&got),
               "[{\"sha256\":\"x\",\"loads\":[{\"process_id\":1,\"instance_id\":\"i-a\"},"
               "{\"process_id\":2,\"instance_id\":\"i-c\"},{\"process_id\":3,\"instance_id\":"
               "\"i-c\"}],\"name\":\"n\"},{\"sha256\":\"y\",\"loads\":[]}]");
    CHECK_INT(mrd_json_size(mrd_json_get(mrd_json_at(la->models, 0), "loads")), 1);
    mrd_node_models_unref(la);
    mrd_node_models_unref(lb);
    CHECK(mrd_node_models_ref(NULL) == NULL);
    mrd_node_models_unref(NULL);
    mrd_json_free(a);
    mrd_json_free(b);
    mrd_json_free(none);
    mrd_json_free(all);
    mrd_buf_fini(&got);
}

/* ---- Runtimes ---- */

TEST(what_a_runtime_can_do)
{
    Mrd__RuntimeFeatures m = MRD__RUNTIME_FEATURES__INIT;
    static char *types[300], *functions[1];
    char longest[300], version[100];
    mrd_runtime_features *r, *back;
    mrd_json *o = mrd_json_new_object();
    const mrd_json *list;

    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    memset(version, '2', sizeof(version) - 1);
    version[sizeof(version) - 1] = '\0';
    for (size_t i = 0; i < MRD_COUNT(types); i++)
        types[i] = text_of(i == 1 ? "exec" : "other");
    functions[0] = longest;
    m.version = version;
    m.event_types = types;
    m.n_event_types = MRD_COUNT(types);
    m.unknown_functions = functions;
    m.n_unknown_functions = 1;
    m.labels = longest;
    r = mrd_runtime_features_new(&m);
    REQUIRE(r != NULL);
    CHECK_INT(strlen(mrd_json_str(r->json, "version", "")), 63);
    CHECK_INT(mrd_json_size(mrd_json_get(r->json, "event_types")), 256);
    list = mrd_json_get(r->json, "unknown_functions");
    CHECK_INT(mrd_json_size(list), 1);
    CHECK_INT(strlen(mrd_json_str(r->json, "labels", "")), 191);
    mrd_runtime_features_put(r, o);
    back = mrd_runtime_features_load(o);
    REQUIRE(back != NULL);
    CHECK(mrd_runtime_features_has(r, "exec") && mrd_runtime_features_has(back, "exec"));
    CHECK(mrd_runtime_features_has(back, "other") && !mrd_runtime_features_has(back, "execute"));
    CHECK(!mrd_runtime_features_has(NULL, "exec"));
    CHECK(mrd_runtime_features_ref(r) == r);
    mrd_runtime_features_unref(r);
    CHECK(mrd_runtime_features_has(r, "exec")); /* one is left */
    mrd_runtime_features_unref(r);
    mrd_runtime_features_unref(back);
    mrd_json_free(o);
    o = mrd_json_new_object();
    mrd_runtime_features_put(NULL, o);
    CHECK_INT(mrd_json_size(o), 0);
    CHECK(mrd_runtime_features_load(o) == NULL && mrd_runtime_features_new(NULL) == NULL);
    mrd_json_free(o);
}

TEST(names_of_functions_are_cut)
{
    Mrd__RuntimeFeatures m = MRD__RUNTIME_FEATURES__INIT;
    char longest[300], *functions[2] = { longest, text_of("f") };
    mrd_runtime_features *r;
    mrd_buf got = { 0 };

    memset(longest, 'x', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    m.unknown_functions = functions;
    m.n_unknown_functions = 2;
    r = mrd_runtime_features_new(&m);
    REQUIRE(r != NULL);
    mrd_json_write(mrd_json_get(r->json, "unknown_functions"), false, &got);
    CHECK_INT(got.len, strlen("[\"\",\"f\"]") + 127);
    mrd_runtime_features_unref(r);
    mrd_buf_fini(&got);
}

TEST_MAIN()
