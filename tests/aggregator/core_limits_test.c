/* The limits of one session: the last that fits is taken, the next is refused and changes nothing. */
#include "aggregator/core/artifacts.h"
#include "base/vec.h"
#include "tests/aggregator/core_make.h"

/* The first effect with this ticket, and drains. */
static mrd_effect
answer_to(mrd_core *c, uint64_t ticket)
{
    mrd_effect found = { 0 }, *e;

    while ((e = mrd_core_effect(c)) != NULL) {
        if (e->kind == MRD_DO_ANSWER && e->ticket == ticket)
            found = *e;
    }
    return found;
}

TEST(triggers_of_a_session)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_RECORDING);
    mrd_part *p = core_part(c, s, "a", MRD_PART_RECORDING);
    mrd_effect e;
    uint64_t last;

    s->params.mode = MRD_MODE_RECORDER;
    s->params.recorder_ns = 30 * MRD_SEC;
    for (uint64_t i = 1; i < MRD_TRIGGERS_MAX; i++)
        CHECK_ERR("add", mrd_session_add_trigger(s, &(mrd_trigger){ .id = i }, NULL), MRD_OK);
    mrd_core_trigger(c, core_at(20 * MRD_SEC), 5, 7, 10 * MRD_SEC, "the last that fits");
    (void) answer_to(c, 5);
    CHECK_INT(s->n_triggers, MRD_TRIGGERS_MAX);
    last = s->triggers[MRD_TRIGGERS_MAX - 1].id;
    mrd_session_acknowledge_ids(s, p, &last, 1);
    CHECK(mrd_part_knows(p, MRD_TRIGGERS_MAX - 1) && !mrd_part_knows(p, MRD_TRIGGERS_MAX - 2));
    mrd_core_trigger(c, core_at(21 * MRD_SEC), 6, 7, 10 * MRD_SEC, "one too many");
    e = answer_to(c, 6);
    CHECK_ERR("one too many", e.err, MRD_LIMIT);
    CHECK(strstr(e.text, "was triggered 1024 times: start a new one") != NULL);
    CHECK_INT(s->n_triggers, MRD_TRIGGERS_MAX);
    CHECK_INT(s->triggers[MRD_TRIGGERS_MAX - 1].id, last);
    mrd_core_free(c);
}

static mrd_err
announce(mrd_core *c, unsigned number, mrd_why *why)
{
    static const mrd_node node = { .instance_id = "a" };
    Mrd__ArtifactAnnounce o = MRD__ARTIFACT_ANNOUNCE__INIT;
    char sha[65], name[] = "x.ntff", kind[] = "NTFF";

    snprintf(sha, sizeof(sha), "%064x", number);
    o.sha256 = sha;
    o.name = name;
    o.kind = kind;
    o.size = 10;
    return mrd_core_artifact_announced(c, core_at(20 * MRD_SEC), &node, 7, &o, why);
}

TEST(artifacts_of_a_session)
{
    mrd_core *c = core_make((mrd_core_limits){ 0 });
    mrd_session *s = core_session(c, 7, 0, MRD_SESSION_RECORDING);
    mrd_why why = { 0 };

    CHECK_ERR("the first", announce(c, 1, &why), MRD_OK);
    while (s->n_artifacts <
           MRD_ARTIFACTS_MAX - 1) { /* announced, they would be compared in pairs */
        REQUIRE(MRD_VEC_NEXT(s->artifacts, s->n_artifacts));
        s->artifacts[s->n_artifacts] = (mrd_listed_artifact){ .size = 1 };
        snprintf(s->artifacts[s->n_artifacts].sha256, 65, "f%063zx", s->n_artifacts);
        s->n_artifacts++;
    }
    CHECK_ERR("the last that fits", announce(c, 2, &why), MRD_OK);
    CHECK_INT(s->n_artifacts, MRD_ARTIFACTS_MAX);
    CHECK_ERR("one too many", announce(c, 3, &why), MRD_LIMIT);
    CHECK(strstr(why.text, "the session lists as many artifacts as it may (65536)") != NULL);
    CHECK_ERR("one that is listed", announce(c, 1, &why), MRD_OK);
    CHECK_INT(s->n_artifacts, MRD_ARTIFACTS_MAX);
    CHECK_INT(s->artifact_bytes, 20);
    mrd_core_free(c);
}

TEST_MAIN()
