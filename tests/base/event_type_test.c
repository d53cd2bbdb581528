#include "base/event_type.h"

#include "tests/check.h"

/* The events that the runtime's guide lists in the hardware group. All other events are software
 * events. */
static const char guide[] = " nc_exec_running cc_running cc_exec_barrier numerical_err "
                            "nrt_model_switch timestamp_sync_point hw_notify nc_model_switch ";

static const char *const names[] = {
    "nc_exec_running", "cc_running", "cc_exec_barrier", "hw_notify", "nrt_execute",
    "nrt_tensor_free", "step",       "nrt_exec"
};

TEST(words)
{
    static const struct {
        const char *words[3];
        const char *want; /* of names, a letter each */
    } rows[] = {
        { { NULL }, "YYYYYYYY" },
        { { "nrt_execute" }, "nnnnYnnn" },
        { { "device_exec", "cc_exec" }, "YYnnnnnn" },
        { { "^runtime_execute" }, "YYYYnYYY" },
        { { "=device_exec" }, "nnnnnnnn" },
        { { "hardware" }, "YYYYnnnn" },
        { { "software" }, "nnnnYYYY" },
        { { "^hardware" }, "nnnnYYYY" },
        { { "hardware", "nrt_execute" }, "YYYYYnnn" },
        { { "hardware", "^cc_running" }, "YnYYnnnn" },
        { { "^nrt_tensor_free", "^step" }, "YYYYYnnY" },
        { { "=step" }, "nnnnnnYn" },
        { { "^=step" }, "YYYYYYnY" },
        { { "=hardware" }, "nnnnnnnn" },
        { { "all" }, "YYYYYYYY" },
        { { "diagnosis" }, "YYYYYnYY" },
        { { "diagnosis", "nrt_tensor_free" }, "YYYYYYYY" },
        { { "diagnosis", "^hardware" }, "nnnnYnYY" },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        size_t n = 0;

        while (n < 3 && rows[i].words[n] != NULL)
            n++;
        for (size_t k = 0; k < MRD_COUNT(names); k++)
            if (mrd_types_want(rows[i].words, n, mrd_str_of(names[k])) != (rows[i].want[k] == 'Y'))
                fprintf(stderr, "row %zu: %s\n", i, names[k]), test_failures++;
        CHECK_ERR("known", mrd_types_check(rows[i].words, n, &names[6], 1, NULL), MRD_OK);
    }
}

/* A set of event types may be written with new words. For older agents it is written with the words
 * that they know and that mean the same. */
TEST(sets)
{
    static const struct {
        const char *words[3];
        size_t n; /* number of words afterwards */
        const char *set;
    } rows[] = {
        { { NULL }, 0, "all" },
        { { "nrt_execute" }, 1, "selected" },
        { { "all" }, 0, "all" },
        { { "all", "nrt_execute", "^cc_running" }, 1, "selected" },
        { { "diagnosis" }, 4, "diagnosis" },
        { { "^nrt_tensor_free", "diagnosis" }, 4, "diagnosis" },
        { { "diagnosis", "^cc_running" }, 5, "selected" },
        { { "diagnosis", "nrt_tensor_free", "nrt_execute" }, 3, "selected" },
        { { "diagnosis", "all" }, 0, "all" },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        mrd_strlist list = { 0 };
        size_t n = 0;

        for (; n < 3 && rows[i].words[n] != NULL; n++)
            CHECK_ERR("word", mrd_strlist_add(&list, mrd_str_of(rows[i].words[n])), MRD_OK);
        CHECK_ERR("expand", mrd_types_expand(&list), MRD_OK);
        CHECK_INT(list.n, rows[i].n);
        CHECK_TEXT(mrd_types_set(&list), rows[i].set);
        for (size_t k = 0; k < MRD_COUNT(names); k++)
            CHECK(mrd_types_want(rows[i].words, n, mrd_str_of(names[k])) ==
                  mrd_types_want((const char *const *) list.v, list.n, mrd_str_of(names[k])));
        mrd_strlist_fini(&list);
    }
}

/* Some versions of the runtime use another set of names. */
TEST(the_other_names_mean_the_same)
{
    static const char *const hardware[] = { "hardware" }, *const one[] = { "nc_exec_running" };

    CHECK(mrd_type_is_hardware(MRD_STR("device_exec")));
    CHECK(mrd_types_want(hardware, 1, MRD_STR("cc_exec")));
    CHECK(!mrd_types_want(hardware, 1, MRD_STR("tensor_read")));
    CHECK(mrd_types_want(one, 1, MRD_STR("device_exec")));
    CHECK(!mrd_types_want(one, 1, MRD_STR("cc_exec")));
}

TEST(hardware_is_what_the_guide_says)
{
    for (size_t i = 0; i < MRD_COUNT(names); i++) {
        char word[64];

        snprintf(word, sizeof(word), " %s ", names[i]);
        CHECK_ROW(names[i],
                  mrd_type_is_hardware(mrd_str_of(names[i])) == (strstr(guide, word) != NULL));
    }
}

TEST(unknown_words_are_refused)
{
    static const struct {
        const char *word, *want;
    } rows[] = {
        { "hardwrae",
          "'hardwrae' is not an event type of the Neuron runtime: did you mean hardware? "
          "=hardwrae selects events by any other name, such as a program's own spans" },
        { "^nc_exec_runing", "did you mean nc_exec_running?" },
        { "cc-running", "did you mean cc_running?" },
        { "step", "'step' is not an event type of the Neuron runtime; =step selects" },
        { "^", "needs an event type" },
        { "=", "needs an event type" },
        { "^=", "needs an event type" },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        const char *words[] = { "hardware", rows[i].word };
        mrd_why why = { 0 };

        CHECK_ERR(rows[i].word, mrd_types_check(words, 2, NULL, 0, &why), MRD_INVALID);
        if (strstr(why.text, rows[i].want) == NULL)
            fprintf(stderr, "%s: %s\n", rows[i].word, why.text), test_failures++;
    }
}

TEST_MAIN()
